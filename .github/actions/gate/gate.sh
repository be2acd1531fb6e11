#!/usr/bin/env bash
# What the action runs: the judge of a bundle, in a registry of this job's own, through the gate.
# Exit codes are those of memalign gate: 0 pass, 1 regression, 2 wrong use or missing evidence, 3 inconclusive.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export MEMALIGN_REGISTRY="sqlite:///$folder/gate.db"

memalign import "$JUDGE" --name judge > /dev/null
options=(--junit "${JUNIT:-gate.xml}")
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then options+=(--summary "$GITHUB_STEP_SUMMARY"); fi
if [ -n "${EVIDENCE:-}" ]; then options+=(--evidence "$EVIDENCE" --offline); fi
# The demands are options, several words: they are split on purpose.
# shellcheck disable=SC2086
memalign gate judge "$LABELLED" $DEMANDS "${options[@]}"
