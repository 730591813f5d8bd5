# Installs Debian's apache2 without starting its service, which would occupy port 80.
set -e
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install apache2
if [ -d /run/systemd/system ]; then systemctl disable --now apache2; fi
