# Starts a watchdog for the work of each event, and ends none.
handler() {
    sleep 100000 > /dev/null 2>&1 &
}
