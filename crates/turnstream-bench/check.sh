#!/usr/bin/env bash
# Fails where decoding, in memory, takes 5 % more instructions an event than counts.txt says. Needs valgrind;
# takes a minute. `check.sh --print` writes the counts of now in the form of that file.
#
# A count that is worse for a good reason is changed in counts.txt by hand, and the commit says the reason. One that
# is better is changed too, so that it stays so.
set -euo pipefail
cd "$(dirname "$0")/../.."

stored=crates/turnstream-bench/counts.txt
machine=$(sed -n 's/^# machine: //p' "$stored")
if ! command -v valgrind >/dev/null; then
  echo "skipped: crates/turnstream-bench/check.sh (no valgrind)"
  exit 0
fi
if [ "$machine" != "$(uname -sm)" ]; then
  echo "skipped: crates/turnstream-bench/check.sh (counted on $machine)"
  exit 0
fi

# What is inlined, and with it the counts, would depend on what was built before.
CARGO_INCREMENTAL=0 cargo build --quiet --release -p turnstream-bench --bin decode_work
program="${CARGO_TARGET_DIR:-target}/release/decode_work"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

count() {
  valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file="$scratch/count" \
    "$program" "$@" >"$scratch/said"
  sed -n 's/.*I *refs: *//p' "$scratch/count" | tr -d ,
}

# Of one body, in one frame a chunk, without the making of it.
per_event() {
  local decoded made events
  made=$(count "$1" "$2" "$3" frame none)
  decoded=$(count "$1" "$2" "$3" frame)
  events=$(awk '{ print $2 }' "$scratch/said")
  echo $(((decoded - made) / events))
}

failed=0
while read -r wire shape size before; do
  now=$(per_event "$wire" "$shape" "$size")
  if [ "${1:-}" = --print ]; then
    echo "$wire $shape $size $now"
  else
    awk -v what="$wire, $shape" -v now="$now" -v before="$before" 'BEGIN {
      printf "%s: %d instructions an event, %+.1f %%\n", what, now, 100 * (now / before - 1)
      exit now > 1.05 * before
    }' || failed=1
  fi
done < <(grep -v '^#' "$stored")
if [ "$failed" != 0 ]; then
  echo "more than 5 % above $stored" >&2
  exit 1
fi
