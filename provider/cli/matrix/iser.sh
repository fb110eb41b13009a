# A disk of tgtd, and libiscsi's own tests of it. "$@" starts iscsi-test-cu.
target=iqn.2026-01.verbena:disk initiator=iqn.2026-01.verbena:host
truncate -s 64M disk
export TGT_IPC_SOCKET="$PWD/socket"
beside tgtd --foreground >log 2>&1
insist "tgtd answers" tgtadm --lld iser --op new --mode target --tid 1 --targetname $target
tgtadm --lld iser --op new --mode logicalunit --tid 1 --lun 1 --backing-store "$PWD/disk"
# It takes an initiator that both of its lists have, by address and by name.
tgtadm --lld iser --op bind --mode target --tid 1 --initiator-address ALL
tgtadm --lld iser --op bind --mode target --tid 1 --initiator-name $initiator
"$@" --initiator-name $initiator --dataloss --test="$OPTIONS" "iser://198.18.0.1/$target/1" || {
    tail -n 20 log
    exit 1
}
