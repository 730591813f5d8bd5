# Builds memcached with symbols from Debian's source package, once unmodified ($1/plain) and once with our patch ($1/budget).
# The machine's own sources and package lists stay unchanged.
set -e
out=$1 patch=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/lists/partial"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep -v '^#' | grep -o 'https\?://[^ ]*/debian/\?\( \|$\)' | head -n 1 || true)
for kind in deb deb-src; do
    echo "$kind [signed-by=$keys] ${mirror:-http://deb.debian.org/debian} bookworm main"
done > "$folder/list"
set -- -qq -o Dir::Etc::SourceList="$folder/list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$folder/lists" \
    -o APT::Sandbox::User=root
apt-get "$@" update
DEBIAN_FRONTEND=noninteractive apt-get "$@" -y --no-install-recommends install gcc make dpkg-dev patch libc6-dev libevent-dev
cd "$folder"
apt-get "$@" source memcached
for build in plain budget; do
    cp -a memcached-1.6.18 "$build"
    cd "$build"
    if [ "$build" = budget ]; then patch -p1 < "$patch"; fi
    ./configure CFLAGS='-O2 -g'
    make memcached
    cd ..
done
mkdir -p "$out"
cp plain/memcached "$out/plain"
cp budget/memcached "$out/budget"
