#!/usr/bin/env bash
# Runs the loop against a real model behind a real server, on all three wires.
#
#   tests/real/llama.sh DIR
#
# Installs the server into DIR, see server.sh. Not part of the default tests.
set -euo pipefail
dir=${1:?usage: llama.sh DIR}
. "$(dirname "$0")/server.sh"

cd "$here/../.."
TURNSTREAM_LLAMA="$address" cargo test --package turnstream-tests --test real_server -- --nocapture --test-threads 1
for provider in anthropic openai-chat openai; do
  echo "== support_assistant --provider $provider"
  cargo run --quiet --example support_assistant -- --provider "$provider" --model smol \
    --base-url "$address/v1" --force-call --max-tokens 600 "Where is order A-4471?"
done
