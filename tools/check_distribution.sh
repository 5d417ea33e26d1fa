#!/usr/bin/env bash
# Runs README's two commands on a fresh Debian of another suite, as a new user would: an ordinary
# user with sudo, a clone of HEAD in a path with spaces, once under LC_ALL=C.UTF-8 and once under a
# locale with decimal commas. Prints the demo's table and the tests' last lines.
#
#   sudo tools/check_distribution.sh SUITE [FOLDER]      SUITE: bookworm, trixie, testing, ...
#
# The system is made in FOLDER (default: build/distribution/SUITE; 8 GB) and kept; a folder that
# holds one already is used again with a new clone. Packages come from $MIRROR or, if that is not
# set, from the mirror this system uses. With ONLY=demo the tests are left out; with STALE=1 a mirror
# whose lists have expired will do.
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# < 1 || $# > 2)); then
  sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "$0" >&2
  exit 2
fi
if [[ $(id -u) -ne 0 ]]; then
  echo "check_distribution: root is needed to make a system in a folder" >&2
  exit 2
fi
suite=$1
system=$(realpath -m "${2:-build/distribution/$suite}")
if ! command -v debootstrap >/dev/null; then
  apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
fi
if [[ ! -e $system/etc/debian_version ]]; then
  mirror=${MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)}
  mkdir -p "$system"
  debootstrap --variant=minbase "$suite" "$system" "$mirror" >"$system.log" 2>&1 ||
    { tail -n 5 "$system.log" >&2; exit 1; }
fi
cp /etc/resolv.conf /etc/hosts "$system/etc/"
if [[ -n ${STALE:-} ]]; then
  echo 'Acquire::Check-Valid-Until "false";' >"$system/etc/apt/apt.conf.d/stale"
fi

rm -rf "$system/srv/slift.git"
git clone --quiet --bare . "$system/srv/slift.git"

cat >"$system/root/prepare.sh" <<'PREPARE'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends sudo git make locales ca-certificates >/dev/null
echo 'de_DE.UTF-8 UTF-8' >/etc/locale.gen
locale-gen >/dev/null
id newcomer >/dev/null 2>&1 || useradd --create-home --shell /bin/bash newcomer
chown -R newcomer /srv/slift.git
echo 'newcomer ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/newcomer
PREPARE

cat >"$system/srv/visit.sh" <<'VISIT'
set -euo pipefail
. /etc/os-release
echo "== $PRETTY_NAME: $(git -C /srv/slift.git log -1 --format='%h %s')"
folder="$HOME/my own models/slift"
rm -rf "$folder"
git clone --quiet /srv/slift.git "$folder"
cd "$folder"
export LC_ALL=C.UTF-8
start=$SECONDS
make demo >../demo.log 2>&1 || { tail -n 40 ../demo.log; exit 1; }
echo "== make demo, LC_ALL=$LC_ALL: $((SECONDS - start)) s"
grep -A 4 'sliced W2   x floor' ../demo.log
echo "warnings of the compiler: $(grep -c 'warning:' ../demo.log || true)"
echo "versions: $(g++ -dumpfullversion) GCC, $(cmake --version | grep -oE '[0-9.]+$' | head -n 1) CMake," \
  "$(build/release/slift doctor | awk '/^LibTorch|^HDF5/ {printf "%s %s, ", $1, $2}')" \
  "$(dpkg-query -W -f='fmt ${Version}, ' libfmt-dev)$(dpkg-query -W -f='GoogleTest ${Version}' libgtest-dev)"
export LC_ALL=de_DE.UTF-8
build/release/slift demo >../demo-comma.log 2>&1 || { tail -n 40 ../demo-comma.log; exit 1; }
echo "== slift demo, LC_ALL=$LC_ALL"
diff <(grep -A 4 'sliced W2   x floor' ../demo.log) <(grep -A 4 'sliced W2   x floor' ../demo-comma.log)
echo "the same table"
[[ ${ONLY:-} == demo ]] && exit 0
start=$SECONDS
make test >../test.log 2>&1 || { grep -vE 'Passed|Start' ../test.log | tail -n 60; exit 1; }
echo "== make test, LC_ALL=$LC_ALL: $((SECONDS - start)) s"
grep -E 'tests passed|tests failed|Not Run|Skipped' ../test.log
VISIT

# Mounts of a namespace of their own are gone when the last process is.
# shellcheck disable=SC2016
unshare --mount --pid --fork --kill-child bash -c '
  set -e
  mount --make-rprivate /
  mount -t proc proc "$1/proc"
  mount --rbind /dev "$1/dev"
  mount -t sysfs -o ro sysfs "$1/sys"
  chroot "$1" bash /root/prepare.sh
  exec chroot "$1" su --login newcomer --command "ONLY=$2 bash /srv/visit.sh"
' - "$system" "${ONLY:-}"
