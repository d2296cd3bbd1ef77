#!/usr/bin/env bash
# Builds the peers, one after the other. One that does not build here is named and left out.
set -uo pipefail
cd "$(dirname "$0")"

for peer in value async-openai async-anthropic genai rig siumai; do
  started=$SECONDS
  if CARGO_TARGET_DIR="${PEERS_TARGET_DIR:-target}" timeout "${MINUTES:-15}m" \
    cargo build --quiet --release "-j${JOBS:-2}" -p "peer-$peer"; then
    echo "built: $peer ($((SECONDS - started)) s)"
  else
    echo "left out: $peer failed, or took more than ${MINUTES:-15} minutes ($((SECONDS - started)) s)"
  fi
done
