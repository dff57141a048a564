# Scans a file of tests for each event, and counts those with a tag.
handler() {
    local line tagged=0
    while read -r line; do
        [[ $line == @tag* ]] && ((tagged += 1))
    done <<< "$(printf '%s\n' '@tag slow' test_one test_two '@tag slow' test_three)"
    echo "$tagged"
}
