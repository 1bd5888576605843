#!/bin/sh
# MariaDB's server for the tests: started by them with a private data directory, never as a service.
set -eu
command -v mariadbd >/dev/null 2>&1 && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "MariaDB's server is missing: apt-get install mariadb-server (Debian), then run this again." >&2
  exit 1
fi
echo "Setting up: Debian's mariadb-server"
apt-get update -qq
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d 2>/dev/null && chmod +x /usr/sbin/policy-rc.d || true
DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends mariadb-server >/dev/null 2>&1 || true
rm -f /usr/sbin/policy-rc.d
command -v mariadbd >/dev/null 2>&1 || { echo "apt-get could not install mariadb-server" >&2; exit 1; }
