#!/usr/bin/env bash
# The same turns of every wire behind nginx and behind a proxy with faults.
#
#   tests/network/proxies.sh [PROGRAM]
#
# PROGRAM is the built `proxies`; without it cargo builds and runs it. Where nginx is not installed its part is left
# out, and said so; on CI it is installed from Debian's packages, if that takes no longer than a minute.
set -euo pipefail
# Not everybody's path leads to where Debian puts nginx.
PATH="$PATH:/usr/sbin:/sbin"

if ! command -v nginx >/dev/null && [ "${CI:-}" = true ] && command -v apt-get >/dev/null; then
  # At run level 1 the package starts no server of its own.
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive timeout 60 sh -c '
    install="apt-get install -y --no-install-recommends nginx"
    $install || { apt-get update && $install; }
  ' >/dev/null 2>&1 || true
fi
arguments=()
if command -v nginx >/dev/null; then
  arguments=(--nginx "$(command -v nginx)")
fi
if [ $# -gt 0 ]; then
  exec "$1" "${arguments[@]}"
fi
cd "$(dirname "$0")/../.."
exec cargo run --quiet -p turnstream-network --bin proxies -- "${arguments[@]}"
