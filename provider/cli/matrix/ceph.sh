# A monitor and two OSDs of Ceph, whose messages all go by RDMA, and an object that is written, read back and compared. "$@"
# starts ceph-osd.
cat >ceph.conf <<END
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = [v2:198.18.0.1:3300]
mon data = $PWD/mon
osd data = $PWD/osd\$id
osd objectstore = memstore
memstore device bytes = 4294967296
osd max object name len = 256
osd max object namespace len = 64
osd pool default size = 2
osd crush chooseleaf type = 0
auth cluster required = none
auth service required = none
auth client required = none
ms type = async+rdma
ms async rdma device name = verbena0
ms async rdma gid idx = 1
ms async rdma receive buffers = 4096
ms async rdma receive queue len = 1024
ms async rdma buffer size = 65536
admin socket =
log file = $PWD/\$name.log
pid file =
END
export CEPH_CONF="$PWD/ceph.conf"
mkdir mon osd0 osd1
monmaptool --create --addv a '[v2:198.18.0.1:3300]' --fsid "$(ceph-conf --lookup fsid)" monmap
ceph-mon --mkfs --id a --monmap monmap
beside ceph-mon --id a --foreground >mon.out 2>&1
for id in 0 1; do
    uuid=$(cat /proc/sys/kernel/random/uuid)
    insist "the monitor knows OSD $id" timeout 20 ceph osd new "$uuid" $id
    "$@" --mkfs --id $id --osd-uuid "$uuid" >mkfs.out 2>&1 || { cat mkfs.out; exit 1; }
    beside "$@" --id $id --foreground >osd$id.out 2>&1
done
timeout 20 ceph osd pool create pool 8
head -c 3000000 /dev/urandom >object
insist "an object is written" timeout 30 rados --pool pool put object object
timeout 20 rados --pool pool get object copy
cmp object copy
timeout 20 ceph osd stat
echo "written, read back and compared"
