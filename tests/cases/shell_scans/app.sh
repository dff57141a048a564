# Scans a file of tests for each event, and counts those with a tag.
handler() {
    local line tagged=0
    exec {scan}< <(printf '%s\n' '@tag slow' test_one test_two '@tag slow' test_three)
    while read -r line <&"$scan"; do
        [[ $line == @tag* ]] && ((tagged += 1))
    done
    echo "$tagged"
}
