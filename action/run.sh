#!/bin/sh
# The steps of the action: installs tare, records a command, and writes a flame graph page and a summary. CI runs it, too:
# packaging/test.sh.
#   TARE_COMMAND   the command, for sh     TARE_PACKAGES   folder of install.sh
#   TARE_PREFIX    where to install        TARE_OUTPUT     folder for the results
#   GITHUB_STEP_SUMMARY   file that the summary is appended to
# Exits with the command's status.
set -eu
if ! [ -x "$TARE_PREFIX/bin/tare" ]; then
    sudo=
    # As on hosted runners: the user isn't root, and may become it.
    if [ "$(id -u)" != 0 ] && ! [ -w "$TARE_PREFIX" ]; then sudo=sudo; fi
    $sudo "$TARE_PACKAGES/install.sh" --prefix "$TARE_PREFIX"
fi
tare=$TARE_PREFIX/bin/tare
mkdir -p "$TARE_OUTPUT"
status=0
"$tare" record -g -o "$TARE_OUTPUT/perf.data" -- sh -c "$TARE_COMMAND" || status=$?
[ -e "$TARE_OUTPUT/perf.data" ] || exit "$status"
"$tare" flame -i "$TARE_OUTPUT/perf.data" -o "$TARE_OUTPUT/flame.html"
{
    echo "### Profile of a command"
    echo
    echo '```text'
    printf '$ %s\n\n' "$TARE_COMMAND"
    "$tare" report --stdio --no-children -g none --percent-limit 1 -i "$TARE_OUTPUT/perf.data"
    echo '```'
    echo
    echo "The artifact has the flame graph: \`flame.html\`."
} >"$TARE_OUTPUT/summary.md"
cat "$TARE_OUTPUT/summary.md" >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
exit "$status"
