#!/usr/bin/env bash
# Makes fixtures/recorded/ anew, with `turnstream record` from a real server.
#
#   tests/real/record.sh DIR
#
# Installs the server into DIR, see server.sh. The events files are printed by `turnstream decode`: look at what
# changed in them before you commit it.
set -euo pipefail
dir=${1:?usage: record.sh DIR}
. "$(dirname "$0")/server.sh"

cd "$here/../.."
cargo build --quiet --package turnstream-cli
turnstream=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/turnstream

record() { # WIRE NAME < REQUEST
  local out=fixtures/recorded/$1/$2
  "$turnstream" record --wire "$1" --base-url "$address/v1" --model smol --force --out "$out" --json - >/dev/null
  "$turnstream" decode "$out.json" >"$out.events.jsonl"
}

for wire in anthropic-messages openai-chat openai-responses; do
  echo "== $wire"
  mkdir -p "fixtures/recorded/$wire"
  for name in text one-call two-calls-1 length-in-a-call; do
    request=$here/requests/$name.$wire.json
    [ -f "$request" ] || request=$here/requests/$name.json
    record "$wire" "$name" <"$request"
  done
  "$dir/llama/bin/python" "$here/answer.py" "$here/requests/two-calls-1.json" \
    "fixtures/recorded/$wire/two-calls-1.events.jsonl" | record "$wire" two-calls-2
done
