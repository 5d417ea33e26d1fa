#!/usr/bin/env python3
"""Checks the include graph: a folder may include only from itself and the folders its CMakeLists.txt
lists under DEPENDS, and only folders declared TORCH may include LibTorch. Exits 1 naming each breach.
"""
import pathlib
import re
import sys

FORBIDDEN = [("rollout", "training"), ("metrics", "nets"), ("report", "torch"), ("core", "torch")]
TORCH_HEADERS = ("torch/", "ATen/", "c10/")


def main():
    src = pathlib.Path(__file__).resolve().parent.parent / "src"
    folders = sorted(p.name for p in src.iterdir() if p.is_dir())
    depends, torch = {}, set()
    for folder in folders:
        text = (src / folder / "CMakeLists.txt").read_text()
        match = re.search(r"slift_library\((\w+)([^)]*)\)", text)
        if match is None:  # the program itself links everything, and nothing links it
            depends[folder] = set(folders)
            torch.add(folder)
            continue
        words = match.group(2).split()
        if "TORCH" in words:
            torch.add(folder)
        listed = match.group(2).split("DEPENDS", 1)[-1]
        listed = re.split(r"\b(?:LINK|SOURCES|TORCH)\b", listed)[0].split()
        depends[folder] = set(listed) & set(folders)
    breaches, count = [], 0
    for path in sorted(src.rglob("*")):
        if path.suffix not in (".h", ".cc", ".cu"):
            continue
        folder = path.relative_to(src).parts[0]
        for line in path.read_text().splitlines():
            match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if match is None:
                continue
            count += 1
            header = match.group(1)
            target = header.split("/")[0]
            if header.startswith(TORCH_HEADERS):
                target = "torch"
                allowed = folder in torch
            elif target in folders:
                allowed = target == folder or target in depends[folder]
            else:
                continue
            if target == "cli" and folder != "cli":
                allowed = False
            if not allowed or (folder, target) in FORBIDDEN:
                breaches.append(f"{path.relative_to(src)} includes {header}: {folder} -> {target}")
    for breach in breaches:
        print(breach)
    print(f"includes: {count} checked, {len(breaches)} forbidden")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
