# Event: {"how": "pipe"}, {"how": "true", "count": how many}, or nothing to do.
handler() {
    case "$1" in
        *pipe*) seq 1 20000 | grep 7 | sort | head -3 ;;
        *true*) for ((left = ${1//[^0-9]/}; left; left--)); do /bin/true; done ;;
    esac
}
