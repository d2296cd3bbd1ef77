#!/usr/bin/env bash
# Counts instructions of decoding, in memory, and writes two tables. Needs valgrind; takes a few minutes.
# Making the body is counted apart and subtracted. Fails where twice the input is more than 2.2 times the work.
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo build --quiet --release -p turnstream-bench
program="${CARGO_TARGET_DIR:-target}/release/decode_work"
counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT

# Those on which a call comes in fragments; on the others it is one event.
wires="anthropic-messages openai-chat openai-responses cohere-v2 bedrock-converse"
wires_of_whole_calls="gemini ollama"
linear_sizes="1 2 4 8"
comment_sizes="25000 50000 100000 200000"
# Shapes that are the same work on every wire are counted on one.
one_wire="anthropic-messages"
most=2.2

# The size of a body in table (b): text deltas, and fragments of each of sixteen calls.
text_deltas=5000
tool_fragments=5000
declare -A sizes=([text]=$text_deltas [tools]=$tool_fragments)

count() {
  local refs
  # Cachegrind without its caches is the fastest tool that counts instructions.
  valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file="$counts/$*.log" \
    "$program" "$@" >"$counts/$*.out"
  refs=$(sed -n 's/.*I *refs: *//p' "$counts/$*.log" | tr -d ,)
  [ -n "$refs" ] || { echo "no count of: $*" >&2; return 255; }
  echo "$refs" >"$counts/$*"
}
export -f count
export program counts

# The same body is made for several shapes; it is enough to count that once.
body_of() {
  case "$1" in
    preview | collect-call) echo huge-call ;;
    *) echo "$1" ;;
  esac
}

linear() {
  local wire size
  for wire in $wires; do
    for size in $linear_sizes; do
      echo "$wire huge-call $size frame"
      echo "$wire huge-frame $size 1024"
    done
  done
  for size in $linear_sizes; do
    echo "ollama huge-frame $size 1024"
    for shape in preview collect-call collect-text; do
      echo "$one_wire $shape $size 16384"
    done
  done
  for size in $comment_sizes; do
    echo "$one_wire comments $size 1024"
  done
}

shapes_of() {
  case " $wires_of_whole_calls " in
    *" $1 "*) echo text ;;
    *) echo text tools ;;
  esac
}

per_event() {
  local wire shape chunk
  for wire in $wires $wires_of_whole_calls; do
    for shape in $(shapes_of "$wire"); do
      for chunk in frame 16384; do
        echo "$wire $shape ${sizes[$shape]} $chunk"
      done
    done
  done
}

with_bodies() {
  local wire shape size chunk
  while read -r wire shape size chunk; do
    echo "$wire $shape $size $chunk"
    echo "$wire $(body_of "$shape") $size $chunk none"
  done
}

# The instructions of one decoding, or of one reading by the floor, without those of making its body.
work() {
  echo $(($(<"$counts/$1 $2 $3 $4${5:+ $5}") - $(<"$counts/$1 $(body_of "$2") $3 $4 none")))
}

{ { linear; per_event; } | with_bodies; per_event | sed 's/$/ floor/'; } | sort -u | xargs -P "$(nproc)" -I{} bash -c 'count {}'

echo "Twice the input, at most $most times the work (instructions, millions):"
echo
echo "| wire | shape | size | instructions | of half the size |"
echo "|---|---|---|---|---|"
failed=0
last_key="" last_work=0
while read -r wire shape size chunk; do
  now=$(work "$wire" "$shape" "$size" "$chunk")
  ratio="-"
  if [ "$wire $shape" = "$last_key" ]; then
    ratio=$(awk -v now="$now" -v last="$last_work" 'BEGIN { printf "%.2f", now / last }')
    awk -v ratio="$ratio" -v most="$most" 'BEGIN { exit ratio > most }' || failed=1
  fi
  [ "$shape" = comments ] && unit="" || unit=" MiB"
  printf '| %s | %s | %s%s | %s | %s |\n' "$wire" "$shape" "$size" "$unit" \
    "$(awk -v now="$now" 'BEGIN { printf "%.1f", now / 1e6 }')" "$ratio"
  last_key="$wire $shape" last_work=$now
done < <(linear | sort -s -k1,2)

echo
echo "Instructions an event, in memory ($text_deltas text deltas; 16 calls of $tool_fragments fragments):"
echo
echo "| wire | shape | chunks | ours | hand-written floor | ours / floor |"
echo "|---|---|---|---|---|---|"
for wire in $wires $wires_of_whole_calls; do
  for shape in $(shapes_of "$wire"); do
    for chunk in frame 16384; do
      job="$wire $shape ${sizes[$shape]} $chunk"
      events=$(awk '{ print $2 }' "$counts/$job.out")
      # shellcheck disable=SC2086
      ours=$(work $job) floor=$(work $job floor)
      printf '| %s | %s | %s | %s | %s | %s |\n' "$wire" "$shape" \
        "$([ "$chunk" = frame ] && echo "one frame" || echo "16 KiB")" $((ours / events)) $((floor / events)) \
        "$(awk -v ours="$ours" -v floor="$floor" 'BEGIN { printf "%.2f", ours / floor }')"
    done
  done
done

if [ "$failed" != 0 ]; then
  echo "more than $most times the work for twice the input" >&2
  exit 1
fi
