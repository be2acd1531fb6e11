#!/usr/bin/env bash
# What the action runs: the judge of a bundle, in a registry of this job's own, through memalign evaluate.
# Exit codes are those of memalign evaluate with a criterion: 0 pass, 1 worse, 2 wrong use or a case without a verdict,
# 3 too few cases.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export MEMALIGN_REGISTRY="sqlite:///$folder/gate.db"

memalign import "$JUDGE" --name judge > /dev/null
options=(--junit "${JUNIT:-gate.xml}" --report "$folder/gate.md")
if [ -n "${JUDGED:-}" ]; then options+=(--judged "$JUDGED"); fi
code=0
# The criteria are options, several words: they are split on purpose.
# shellcheck disable=SC2086
memalign evaluate judge "$LABELLED" $CRITERIA "${options[@]}" || code=$?
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$folder/gate.md" ]; then cat "$folder/gate.md" >> "$GITHUB_STEP_SUMMARY"; fi
exit "$code"
