# Debian's apache2; its service would take port 80.
set -e
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install apache2
if [ -d /run/systemd/system ]; then systemctl disable --now apache2; fi
