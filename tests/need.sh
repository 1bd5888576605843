#!/bin/sh
# need.sh COMMAND PACKAGE...: what the tests need and pip can't bring. Installed from Debian when root, else
# named. A server is started by the tests with a private data directory, never as a service.
set -eu
command=$1
shift
command -v "$command" >/dev/null 2>&1 && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "$command is missing: apt-get install $* (Debian), then run this again." >&2
  exit 1
fi
install() { DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 || true; }

echo "Setting up: Debian's $*"
trap 'rm -f /usr/sbin/policy-rc.d' EXIT
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d 2>/dev/null && chmod +x /usr/sbin/policy-rc.d || true
for lists in "as they are" new; do
  [ "$lists" != new ] || apt-get update -qq || true
  # One that was cut short, by a run that somebody ended, has every later one refused until it is finished.
  if [ -n "$(dpkg --audit 2>&1)" ]; then
    echo "Setting up: an installation that was cut short is finished first"
    DEBIAN_FRONTEND=noninteractive dpkg --configure -a >/dev/null 2>&1 || true
    install --fix-broken
  fi
  install "$@"
  command -v "$command" >/dev/null 2>&1 && break
done
command -v "$command" >/dev/null 2>&1 || { echo "apt-get could not install $*" >&2; exit 1; }
