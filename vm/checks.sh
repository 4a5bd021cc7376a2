#!/bin/sh
# Runs in the guest: counts that only a PMU can give, and that are exact there. Each check is a line 'ok …' or 'FAILED …'.
failures=0

verdict() { # verdict NAME EXPECTED GOT
    if [ "$2" = "$3" ]; then
        echo "ok $1"
    else
        failures=$((failures + 1))
        echo "FAILED $1: expected '$2', got '$3'"
    fi
}

verdict "the guest has a PMU" yes "$([ -d /sys/bus/event_source/devices/armv8_pmuv3 ] && echo yes)"

exit "$failures"
