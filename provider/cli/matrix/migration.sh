# A running guest moves from one QEMU to another. The guest is a boot sector: it fills half a megabyte with numbers; then
# it checks them all, replaces them by their successors, writes `v` to its serial line, and begins again. It writes `X` if
# a number is wrong.
#
#        cli                       add %bp, %ax
#        cld                       cmp %ax, %es:(%di)
#        xor %bp, %bp              jne wrong
#        mov $0x1000, %bx          inc %ax
#    fill:                         stosw
#        mov %bx, %es              test %di, %di
#        xor %di, %di              jnz 2b
#    1:  mov %di, %ax              add $0x1000, %bx
#        xor %bx, %ax              cmp $0x9000, %bx
#        stosw                     jne segment
#        test %di, %di             inc %bp
#        jnz 1b                    mov $0x3f8, %dx
#        add $0x1000, %bx          mov $'v', %al
#        cmp $0x9000, %bx          out %al, %dx
#        jne fill                  jmp pass
#    pass:                     wrong:
#        mov $0x1000, %bx          mov $0x3f8, %dx
#    segment:                      mov $'X', %al
#        mov %bx, %es              out %al, %dx
#        xor %di, %di              hlt
#    2:  mov %di, %ax              jmp wrong
#        xor %bx, %ax
{
    printf '\372\374\061\355\273\000\020\216\303\061\377\211\370\061\330\253\205\377'
    printf '\165\367\201\303\000\020\201\373\000\220\165\351\273\000\020\216\303\061'
    printf '\377\211\370\061\330\001\350\046\071\005\165\031\100\253\205\377\165\357'
    printf '\201\303\000\020\201\373\000\220\165\341\105\272\370\003\260\166\356\353'
    printf '\325\272\370\003\260\130\356\364\353\367'
    # Nothing, up to the mark of a boot sector.
    head -c $((510 - 82)) /dev/zero
    printf '\125\252'
} >boot
truncate -s 1440K boot

# The firmware of a QEMU that is unpacked somewhere.
for program; do :; done
case $program in
    */bin/*) firmware="-L ${program%/bin/*}/share/qemu -L ${program%/bin/*}/share/seabios" ;;
    *) firmware= ;;
esac

# guest NAME OPTIONS WORDS...: starts it by these words. Its monitor is NAME.in and NAME.out, its serial line NAME.serial.
guest() {
    name=$1 options=$2
    shift 2
    mkfifo "$name.in"
    setpriv --pdeathsig KILL "$@" -machine pc,accel=tcg -m 32 -nodefaults -display none $firmware \
        -drive if=floppy,format=raw,readonly=on,file=boot -boot a \
        -serial "file:$name.serial" -monitor stdio $options <"$name.in" >"$name.out" 2>&1 &
}
runs() { grep -q vvv "$1.serial"; }
# answers NAME: its monitor does, which is after it began to listen.
answers() { echo "info status" >&4 && grep -q "VM status" "$1.out"; }
is_moved() { echo "info migrate" >&3 && grep -qiE "status:[[:space:]]*completed" source.out; }
trap 'tail -n 4 source.out target.out' EXIT

guest source "" "$@"
exec 3>source.in
guest target "-incoming rdma:198.18.0.1:$PORT" "$@"
exec 4>target.in
insist "the guest runs" runs source
insist "the target answers" answers target
echo "migrate -d rdma:198.18.0.1:$PORT" >&3
insist "the guest moves" is_moved
insist "the guest goes on" runs target
if grep -q X source.serial target.serial; then
    echo "the guest's memory is wrong"
    exit 1
fi
echo "the guest goes on"
