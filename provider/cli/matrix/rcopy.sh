# A file is copied by rsockets, and compared.
head -c 3000001 /dev/urandom >original
beside "$@" -p "$PORT"
# Until the server listens it is refused.
insist "the client copies" "$@" original "198.18.0.1:$PWD/copy" -p "$PORT"
# The server closes it after the client's end.
insist "the copy is the same" cmp original copy
echo "the copy is the same"
