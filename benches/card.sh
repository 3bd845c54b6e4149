#!/usr/bin/env bash
# Proves and measures the heap on the card of this machine, and writes what it
# saw into a folder: benches/card.sh PROGRAM FOLDER
# PROGRAM is dheap, built with --features cuda. Takes some minutes.
set -uo pipefail
program=$1
folder=$2
mkdir -p "$folder"
status=0

# note NAME COMMAND...: runs it, keeps its output, says how it ended.
note() {
  local name=$1 started=$SECONDS
  shift
  "$@" >"$folder/$name" 2>"$folder/$name.err"
  local rc=$?
  printf '%-22s exit %d in %3d s: %s\n' "$name" "$rc" "$((SECONDS - started))" "$*" | tee -a "$folder/summary.txt"
  [ -s "$folder/$name.err" ] && tail -n 3 "$folder/$name.err" | cut -c1-300
  [ "$rc" -eq 0 ] || status=1
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$folder/summary.txt"
note devices.txt "$program" devices
note selftest.txt "$program" selftest --backend cuda
note soak.txt "$program" selftest --backend cuda --only soak --soak "${SOAK:-1e9}"
note bench.csv "$program" bench --csv
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    note "$tool.txt" timeout "${SANITIZER_SECONDS:-200}" compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$program" selftest --backend cuda --quick --pool 64MiB
  done
fi
exit "$status"
