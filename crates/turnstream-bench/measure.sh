#!/usr/bin/env bash
# Measures every client side by side over loopback HTTP, and writes tables. The replay server is a process of its
# own; the clients differ in nothing but how they ask. Peers that were built (see peers/build.sh) take part.
#
#   measure.sh [instructions] [cpu] [memory] [allocations]      all of them without a word
#
# TOOL_FRAGMENTS is how many each of sixteen calls has: 5,000, or fewer where a peer takes too long.
#
# Instructions and allocations are the same on a busy machine; times are not, and their tables say its load.
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo build --quiet --release -p turnstream-bench
built="${CARGO_TARGET_DIR:-target}/release"
peers_built="${PEERS_TARGET_DIR:-crates/turnstream-bench/peers/target}/release"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

rounds="${ROUNDS:-5}"
open_streams="${OPEN_STREAMS:-10000}"
wires="anthropic-messages openai-chat openai-responses"
# On Gemini and Ollama a call is one event.
columns="anthropic-messages:text anthropic-messages:tools openai-chat:text openai-chat:tools openai-responses:text openai-responses:tools gemini:text"
columns+=" cohere-v2:text cohere-v2:tools ollama:text bedrock-converse:text bedrock-converse:tools"
declare -A sizes=([text]=5000 [tools]="${TOOL_FRAGMENTS:-5000}")

peers=()
for program in "$peers_built"/peer-*; do
  if [[ -x $program && $program != *.d ]]; then peers+=("$(basename "$program")"); fi
done

main() {
  local part
  for part in "${@:-instructions cpu memory allocations}"; do
    for part in $part; do
      "measure_$part"
      echo
    done
  done
}

# One client's program, and the words that begin its command line.
command_of() {
  case "$1" in
    peer-*) echo "$peers_built/$1 ${1#peer-}" ;;
    *) echo "$built/http_work $1" ;;
  esac
}

# A peer that cannot read a wire says so; it has no figure there.
run() {
  local client="$1"
  shift
  # shellcheck disable=SC2046
  timeout 300 $(command_of "$client") "$@" 2>>"$scratch/errors"
}

field() { awk -v name="$1" '{ for (i = 1; i < NF; i++) if ($i == name) print $(i + 1) }'; }

median() { sort -n | awk '{ value[NR] = $1 } END { if (NR) print value[int((NR + 1) / 2)] }'; }

ratio() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a && b) printf "%.2f", a / b; else printf "-" }'; }

# Instructions of one turn, or nothing where the client does not read it.
count() {
  # shellcheck disable=SC2046
  timeout 900 valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file="$scratch/count" \
    $(command_of "$1") "${@:2}" sequence 1 >"$scratch/said" 2>>"$scratch/errors" || return 0
  sed -n 's/.*I *refs: *//p' "$scratch/count" | tr -d ,
}

measure_instructions() {
  local chunk client column
  for chunk in frame 16384; do
    echo "Instructions an event, over HTTP, $([ $chunk = frame ] && echo "one frame a chunk" || echo "16 KiB a chunk")"
    echo "(the same turn with one event is subtracted):"
    echo
    echo "| client |$(for column in $columns; do printf ' %s %s |' "${column%:*}" "${column#*:}"; done)"
    echo "|---|$(for column in $columns; do printf -- '---|'; done)"
    declare -A floors=() ours=()
    for client in transport floor ours "${peers[@]}"; do
      printf '| %s |' "$client"
      for column in $columns; do
        per_event "$client" "${column%:*}" "${column#*:}" "$chunk"
        [ "$client" = floor ] && floors[$column]=$result
        [ "$client" = ours ] && ours[$column]=$result
        printf ' %s |' "${result:--}"
      done
      echo
    done
    printf '| ours / floor |'
    for column in $columns; do
      printf ' %s |' "$(ratio "${ours[$column]}" "${floors[$column]}")"
    done
    printf '\n\n'
  done
}

# Sets `result`.
per_event() {
  local client="$1" wire="$2" shape="$3" chunk="$4" large small frames
  result=""
  large=$(count "$client" "$wire" "$shape" "${sizes[$shape]}" "$chunk")
  small=$(count "$client" "$wire" "$shape" 1 "$chunk")
  [ -n "$large" ] && [ -n "$small" ] || return 0
  frames=$(($(frames_of "$wire" "$shape" "${sizes[$shape]}") - $(frames_of "$wire" "$shape" 1)))
  result=$(((large - small) / frames))
}

# The frames of a body: what the transport sees of it in one frame a chunk.
frames_of() { run transport "$1" "$2" "$3" frame sequence 1 | field events; }

measure_cpu() {
  local wire mode client
  echo "Processor time a request, and time to its first event, microseconds, median of $rounds (load: $(cut -d' ' -f1-3 /proc/loadavg)):"
  echo
  echo "| reply | mode | client | processor | / floor | first event | connections |"
  echo "|---|---|---|---|---|---|---|"
  for wire in $wires; do
    for mode in "sequence 1000" "at-once 200"; do
      cpu_rows "small turn, $wire" "$mode" floor "$wire turn 0 frame $mode" transport floor ours "${peers[@]}"
    done
  done
  cpu_rows "two-turn tool run, Messages" "sequence 500" floor-run "anthropic-messages run 0 frame sequence 500" floor-run ours-run
}

# Every client in turn, and then again, so that all of them meet the same load.
cpu_rows() {
  local reply="$1" mode="$2" floor="$3" words="$4" round client
  shift 4
  rm -f "$scratch"/cpu-*
  for ((round = 0; round < rounds; round++)); do
    for client in "$@"; do
      # shellcheck disable=SC2086
      run "$client" $words >>"$scratch/cpu-$client" || true
    done
  done
  local of_floor of_client first
  of_floor=$(field cpu_ns <"$scratch/cpu-$floor" | median)
  for client in "$@"; do
    of_client=$(field cpu_ns <"$scratch/cpu-$client" | median)
    [ -n "$of_client" ] || continue
    first=$(field first_ns <"$scratch/cpu-$client" | median)
    echo "| $reply | $mode | $client | $((of_client / 1000)) | $(ratio "$of_client" "$of_floor") | $([ "$first" = 0 ] && echo - || echo $((first / 1000))) | $(field connections <"$scratch/cpu-$client" | median) |"
  done
}

measure_memory() {
  local wire client
  echo "A consumer that pauses for 4 s while the server pushes: how much the process grows meanwhile, KiB:"
  echo
  echo "| client |$(for wire in $wires; do printf ' %s |' "$wire"; done)"
  echo "|---|---|---|---|"
  for client in transport floor ours "${peers[@]}"; do
    printf '| %s |' "$client"
    for wire in $wires; do
      local grown
      grown=$(run "$client" "$wire" endless 1000 frame pause 4 | field memory_bytes || true)
      [ -n "$grown" ] && grown=$((grown / 1024))
      printf ' %s |' "${grown:--}"
    done
    echo
  done
  echo
  echo "$open_streams open streams that trickle: memory of the process a stream, bytes:"
  echo
  echo "| client | bytes a stream | over the transport's |"
  echo "|---|---|---|"
  local bare="" each
  for client in transport floor ours "${peers[@]}"; do
    each=$(run "$client" anthropic-messages trickle 100 frame open "$open_streams" | field memory_bytes || true)
    bare="${bare:-$each}"
    [ -n "$each" ] && echo "| $client | $each | $((each - bare)) |"
  done
}

measure_allocations() {
  local column wire shape reader said
  echo "Allocations a delta, in memory, in the second half of the deltas:"
  echo
  echo "| wire | shape | floor | ours |"
  echo "|---|---|---|---|"
  for column in $columns; do
    wire="${column%:*}" shape="${column#*:}"
    printf '| %s | %s |' "$wire" "$shape"
    for reader in floor ours; do
      said=$("$built/allocations" "$reader" "$wire" "$shape" "${sizes[$shape]}" frame)
      printf ' %s |' "$(ratio "$(field steady_blocks <<<"$said").0001" "$(field steady_deltas <<<"$said")")"
    done
    echo
  done
  echo
  echo "One call in fragments of 13 bytes: most memory held at once, as a multiple of the arguments:"
  echo
  echo "| wire | chunks | 4 MiB, floor | 4 MiB, ours | 8 MiB, floor | 8 MiB, ours |"
  echo "|---|---|---|---|---|---|"
  for wire in $wires; do
    for chunk in frame 16384; do
      printf '| %s | %s |' "$wire" "$chunk"
      for size in 4 8; do
        for reader in floor ours; do
          said=$("$built/allocations" "$reader" "$wire" huge-call "$size" "$chunk")
          printf ' %s |' "$(ratio "$(field peak_bytes <<<"$said")" $((size << 20)))"
        done
      done
      echo
    done
  done
}

main "$@"
