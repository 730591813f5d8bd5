# Installs Suricata from Debian's bookworm-backports, from the mirror that this machine uses. The machine's own sources and
# package lists stay unchanged.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lists" "$folder/parts"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep -v '^#' | grep -o 'https\?://[^ ]*/debian/\?\( \|$\)' | head -n 1 || true)
for suite in bookworm bookworm-updates bookworm-backports; do
    echo "deb [signed-by=$keys] ${mirror:-http://deb.debian.org/debian} $suite main"
done > "$folder/list"
set -- -qq -o Dir::Etc::SourceList="$folder/list" -o Dir::Etc::SourceParts="$folder/parts" \
    -o Dir::State::Lists="$folder/lists"
apt-get "$@" update
DEBIAN_FRONTEND=noninteractive apt-get "$@" -y --no-install-recommends -t bookworm-backports install suricata
# The package's service would inspect this machine's own traffic.
if [ -d /run/systemd/system ]; then systemctl disable --now suricata; fi
