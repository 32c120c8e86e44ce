#!/bin/sh
# Installs the Debian packages that some tests need; nothing when they are there. The one list of them: compilers for the
# C++ and Fortran sides, a Slurm that the tests of batch jobs start for themselves (its own services are not used) and the
# PMIx by which it starts Open MPI's ranks, `ip` for tests with several machines, and the browser that opens reports.
# Without them those tests are skipped (in CI they fail).
set -eu
PACKAGES="g++ gfortran cmake make libzmq3-dev munge slurmctld slurmd slurm-client slurm-wlm-torque libpmix-dev iproute2 chromium fonts-dejavu-core"

missing=""
for package in $PACKAGES; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

how=""
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "tools/packages.sh: missing$missing, and neither root nor sudo without a password; as root:" \
            "apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    how="sudo"
fi
if ! command -v apt-get >/dev/null; then
    echo "tools/packages.sh: missing$missing, and there is no apt-get; install what they are called here" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
$how apt-get install -qq -y --no-install-recommends $missing >/dev/null ||
    { $how apt-get update -qq && $how apt-get install -qq -y --no-install-recommends $missing >/dev/null; } ||
    { echo "tools/packages.sh: apt-get could not install$missing" >&2; exit 1; }
