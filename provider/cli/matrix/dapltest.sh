# The server of dapltest goes on until a client tells it to end.
beside "$@" -T S -D server
# Until the server listens the client is refused; it says so, and ends with 0.
moves() {
    # Several words.
    # shellcheck disable=SC2086
    "$@" $OPTIONS && grep -q "Total Recv" attempt
}
insist "the client's transactions" moves "$@"
cat attempt
"$@" -T Q -D client -s 198.18.0.1
wait
