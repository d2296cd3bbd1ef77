#!/usr/bin/env bash
# Makes the seed inputs of the fuzz targets from the project's fixtures.
set -euo pipefail
cd "$(dirname "$0")"
seed() { # TARGET WIRE
  mkdir -p "corpus/$1"
  for body in ../fixtures/"$2"/*.{sse,ndjson,json,bin}; do
    [ -f "$body" ] || continue
    # The last byte says how the body is cut.
    { cat "$body"; printf '\x40'; } >"corpus/$1/$(basename "${body%.*}")"
  done
}
seed anthropic_messages anthropic-messages
seed bedrock_converse bedrock-converse
seed bedrock_frames bedrock-converse
seed cohere_v2 cohere-v2
seed gemini gemini
seed ollama ollama
seed openai_chat openai-chat
seed openai_responses openai-responses
mkdir -p corpus/framing corpus/json
for body in ../fixtures/*/*.sse; do
  { printf '\x07'; cat "$body"; } >"corpus/framing/$(basename "$(dirname "$body")")-$(basename "$body" .sse)"
done
sed -n 's/.*"arguments":"\(.*\)"}$/\1/p' ../fixtures/*/*.events.jsonl | sed 's/\\"/"/g' | split -l 1 - corpus/json/arguments-
mkdir -p corpus/tool_loop
printf '\x40\x02\x01\x01\n\x01\x00' >corpus/tool_loop/two-turns
printf '\x40\x03\x01\x02' >corpus/tool_loop/length
printf '\x42\x02\x03\x04\x05\n\x06\x00\n\x01\x00' >corpus/tool_loop/eager
