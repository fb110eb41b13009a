
# A client and its server, which tells the client its port before it listens there: a client that was quicker is refused.
# It tries again, as long as that is the reason.
beside "$@" -lp "$PORT"
tries=0
# Several words.
# shellcheck disable=SC2086
until "$@" -lp "$PORT" 198.18.0.1 $OPTIONS >said 2>&1; do
    tries=$((tries + 1))
    if [ $tries = 50 ] || ! grep -q -e 'expecting: Event established' -e 'failed to connect' said; then
        cat said
        exit 1
    fi
    sleep 0.1
done
cat said
