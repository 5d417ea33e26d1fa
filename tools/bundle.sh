#!/usr/bin/env bash
# Gathers the header-only packages and the chart library that a GPU machine without package access
# lacks into one folder, to be copied there and named with -DSLIFT_BUNDLE.
#   tools/bundle.sh [FOLDER, default .bundle]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-.bundle}
rm -rf "$folder"
mkdir -p "$folder/include"
cp -rL /usr/include/toml++ /usr/include/CLI "$folder/include/"
cp -L /usr/share/javascript/chart.js/chart.min.js "$folder/"
echo "bundle: $(du -sh "$folder" | cut -f1) in $folder"
