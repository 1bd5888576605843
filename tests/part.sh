#!/bin/sh
# part.sh NAME MINUTES COMMAND…: what a part of `make test` took, beside its share of the 45 minutes
# (CONTRIBUTING.md). A part that takes longer is told, and no failure: machines differ.
name=$1 minutes=$2
shift 2
began=$(date +%s)
"$@"
code=$?
took=$(($(date +%s) - began))
budget=$(echo "$minutes" | awk '{ printf "%d", $1 * 60 }')
[ "$took" -gt "$budget" ] && word=", OVER" || word=
printf '== %s: %d:%02d of %d:%02d%s\n' "$name" $((took / 60)) $((took % 60)) $((budget / 60)) $((budget % 60)) "$word"
exit "$code"
