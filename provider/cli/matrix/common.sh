# What the scripts of `verbena matrix` begin with. "$@" are the words that start the program, PORT is a free port,
# OPTIONS are those of the line, and the working directory is the script's own.
set -eu

# beside COMMAND...: runs a program that goes on beside the script, and ends with it at the latest.
beside() {
    setpriv --pdeathsig KILL "$@" &
}

# insist WHAT COMMAND...: tries a command until it succeeds, for 50 s.
insist() {
    what=$1 tries=0
    shift
    until "$@" >attempt 2>&1; do
        tries=$((tries + 1))
        if [ $tries = 500 ]; then
            cat attempt
            echo "not within 50 s: $what"
            exit 1
        fi
        sleep 0.1
    done
}

