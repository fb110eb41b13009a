/*
 * Generated from the crate `fpga-regs` of Verbena by `verbena export`; do not edit.
 * All numbers are little endian: bit 0 is the lowest bit of byte 0.
 */
#ifndef VERBENA_H
#define VERBENA_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the structs below are for little-endian machines"
#endif

#ifdef __cplusplus
#define VERBENA_ASSERT(what) static_assert(what, #what)
#else
#define VERBENA_ASSERT(what) _Static_assert(what, #what)
#endif

/* The field FIELD of a number: VERBENA_GET(cqe.flags, VERBENA_CQE_GRH). */
#define VERBENA_GET(number, FIELD) (((number) & FIELD##_MASK) >> FIELD##_SHIFT)
/* The number with the field FIELD set to a value, which gets the type of the mask before it is shifted. */
#define VERBENA_SET(number, FIELD, value) \
    (((number) & ~FIELD##_MASK) | ((((FIELD##_MASK & 0) | (value)) << FIELD##_SHIFT) & FIELD##_MASK))

/* ---- Constants ---- */

/* PCI vendor. */
#define VERBENA_VENDOR_ID UINT32_C(0x1bd4)
/* PCI device. */
#define VERBENA_DEVICE_ID UINT32_C(0xf10a)
/* PCI class code: Ethernet controller. */
#define VERBENA_CLASS_CODE UINT32_C(0x20000)
/* The register `ID`(super::ID) of this card. */
#define VERBENA_ID_VALUE UINT32_C(0xf10a1bd4)
/* Major version of this definition: software refuses another one. */
#define VERBENA_VERSION_MAJOR UINT32_C(0x1)
/* Minor version of this definition: a higher one only adds. */
#define VERBENA_VERSION_MINOR UINT32_C(0x2)
/* The register `VERSION`(super::VERSION) of this definition. */
#define VERBENA_VERSION_VALUE UINT32_C(0x10002)
/* Bytes of BAR0 (64 bits, not prefetchable). */
#define VERBENA_BAR0_BYTES UINT32_C(0x100000)
/* The BAR that holds the MSI-X table and its pending bits. */
#define VERBENA_MSIX_BAR UINT32_C(0x2)
/* Bytes of that BAR. */
#define VERBENA_MSIX_BAR_BYTES UINT32_C(0x4000)
/* Offset of the MSI-X table in that BAR. */
#define VERBENA_MSIX_TABLE UINT32_C(0x0)
/* Offset of the pending bits in that BAR. */
#define VERBENA_MSIX_PBA UINT32_C(0x2000)
/* Most interrupt vectors of a function. */
#define VERBENA_MAX_VECTORS UINT32_C(0x20)
/* Most event queues of a function. */
#define VERBENA_MAX_EQS UINT32_C(0x20)
/* Ports of the card. */
#define VERBENA_PORTS UINT32_C(0x2)
/* Bytes of the block. */
#define VERBENA_GLOBAL_BYTES UINT32_C(0x1000)
/* Offset of port 1 in BAR0. */
#define VERBENA_PORT_BASE UINT32_C(0x1000)
/* Bytes of a port's block, its GID table included. */
#define VERBENA_PORT_BYTES UINT32_C(0x1000)
/* Offset of the GID table in a port's block. */
#define VERBENA_GID_TABLE UINT32_C(0x800)
/* Bytes of an entry. */
#define VERBENA_GID_ENTRY_BYTES UINT32_C(0x20)
/* Entries of a port's table. */
#define VERBENA_GID_ENTRIES UINT32_C(0x10)
/* Bytes of a doorbell page. */
#define VERBENA_DOORBELL_PAGE_BYTES UINT32_C(0x1000)
/* Doorbell pages of a function. */
#define VERBENA_DOORBELL_PAGES UINT32_C(0x40)
/* Offset of page 0 in BAR0. */
#define VERBENA_DOORBELL_BASE UINT32_C(0x10000)
/* Offset in a page: push window. */
#define VERBENA_PUSH_WINDOW UINT32_C(0x800)
/* Bytes of a slot of the push window. */
#define VERBENA_PUSH_BYTES UINT32_C(0x200)
/* Slots of the push window. */
#define VERBENA_PUSH_SLOTS UINT32_C(0x4)
/* Bytes of a send queue block. */
#define VERBENA_WQE_BLOCK UINT32_C(0x40)
/* Bytes of the unit that `WqeCtrl::ds` counts. */
#define VERBENA_WQE_UNIT UINT32_C(0x10)
/* Most scatter/gather entries of a send or receive WQE. */
#define VERBENA_MAX_SGE UINT32_C(0x1e)
/* Most bytes of inline data. */
#define VERBENA_MAX_INLINE UINT32_C(0x200)
/* Most blocks of a WQE. */
#define VERBENA_MAX_WQE_BLOCKS UINT32_C(0xa)
/* Most bytes of the headers of a RAW_TSO. */
#define VERBENA_MAX_TSO_HEADER UINT32_C(0x80)

/* ---- Registers: global ---- */

/* Identity. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_ID UINT32_C(0x0)
#define VERBENA_GLOBAL_REG_ID_RESET UINT32_C(0xf10a1bd4)
/* Version of this definition; 1.2 is this one. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_VERSION UINT32_C(0x4)
#define VERBENA_GLOBAL_REG_VERSION_RESET UINT32_C(0x10002)
/* What the card can do. (RO, 8 bytes) */
#define VERBENA_GLOBAL_REG_FEATURES UINT32_C(0x8)
/* Serial number: the node GUID. (RO, 8 bytes) */
#define VERBENA_GLOBAL_REG_SERIAL UINT32_C(0x10)
/* Which function of which card this is. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_FUNCTION UINT32_C(0x18)
/* Keeps what is written; no effect. (RW, 4 bytes) */
#define VERBENA_GLOBAL_REG_SCRATCH UINT32_C(0x1c)
#define VERBENA_GLOBAL_REG_SCRATCH_RESET UINT32_C(0x0)
/* Enable and reset. (RW, 4 bytes) */
#define VERBENA_GLOBAL_REG_CONTROL UINT32_C(0x20)
#define VERBENA_GLOBAL_REG_CONTROL_RESET UINT32_C(0x0)
/* State of the function. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_STATUS UINT32_C(0x24)
#define VERBENA_GLOBAL_REG_STATUS_RESET UINT32_C(0x0)
/* Health of the card. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_HEALTH UINT32_C(0x28)
/* Why the function failed. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_ERROR_CAUSE UINT32_C(0x2c)
#define VERBENA_GLOBAL_REG_ERROR_CAUSE_RESET UINT32_C(0x0)
/* The card's time: a free-running count of nanoseconds. (RO, 8 bytes) */
#define VERBENA_GLOBAL_REG_TIME UINT32_C(0x30)
/* DMA address of the admin command ring; 4 KiB aligned, set before `CONTROL.enable`. (RW, 8 bytes) */
#define VERBENA_GLOBAL_REG_ASQ_BASE UINT32_C(0x40)
#define VERBENA_GLOBAL_REG_ASQ_BASE_RESET UINT64_C(0x0)
/* DMA address of the admin reply ring; 4 KiB aligned, set before `CONTROL.enable`. (RW, 8 bytes) */
#define VERBENA_GLOBAL_REG_ACQ_BASE UINT32_C(0x48)
#define VERBENA_GLOBAL_REG_ACQ_BASE_RESET UINT64_C(0x0)
/* Log2 of the entries of both rings. (RW, 4 bytes) */
#define VERBENA_GLOBAL_REG_ADMIN_SIZE UINT32_C(0x50)
#define VERBENA_GLOBAL_REG_ADMIN_SIZE_RESET UINT32_C(0x0)
/* Running count of commands written: the card fetches up to it. (RW, 4 bytes) */
#define VERBENA_GLOBAL_REG_ASQ_DOORBELL UINT32_C(0x54)
#define VERBENA_GLOBAL_REG_ASQ_DOORBELL_RESET UINT32_C(0x0)
/* Running count of replies consumed. (RW, 4 bytes) */
#define VERBENA_GLOBAL_REG_ACQ_CONSUMER UINT32_C(0x58)
#define VERBENA_GLOBAL_REG_ACQ_CONSUMER_RESET UINT32_C(0x0)
/* Interrupt vectors of the function. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_VECTORS UINT32_C(0x80)
/* A set bit masks the vector of its number, which stays pending. (RW, 4 bytes) */
#define VERBENA_GLOBAL_REG_VECTOR_MASK UINT32_C(0x84)
#define VERBENA_GLOBAL_REG_VECTOR_MASK_RESET UINT32_C(0x0)
/* Vectors that fired while masked; writing 1 clears one. (W1C, 4 bytes) */
#define VERBENA_GLOBAL_REG_VECTOR_PENDING UINT32_C(0x88)
#define VERBENA_GLOBAL_REG_VECTOR_PENDING_RESET UINT32_C(0x0)
/* Functions of the card that are open. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_FUNCTIONS_OPEN UINT32_C(0x90)
/* QPs of the card, of all functions. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_QPS_IN_USE UINT32_C(0x94)
/* CQs of the card, of all functions. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_CQS_IN_USE UINT32_C(0x98)
/* Memory registrations and windows of the card, of all functions. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_KEYS_IN_USE UINT32_C(0x9c)
/* Blocks in send queues whose WQE was posted and has not completed, of all QPs of the card. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_SENDS_WAITING UINT32_C(0xa0)
/* The largest part of `SENDS_WAITING` that is one QP's. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_SENDS_DEEPEST UINT32_C(0xa4)
/* Receive WQEs that were posted and not consumed, of all QPs of the card. (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_RECVS_WAITING UINT32_C(0xa8)
/* Bytes of the card's own memory, of all functions (ON_CARD_MEMORY). (RO, 4 bytes) */
#define VERBENA_GLOBAL_REG_MEMORY UINT32_C(0xac)
/* Running count of entries consumed of each event queue. The card never writes over an entry that was not consumed. (RW, 4 bytes, 32 of them) */
#define VERBENA_GLOBAL_REG_EQ_CONSUMER UINT32_C(0x100)
#define VERBENA_GLOBAL_REG_EQ_CONSUMER_RESET UINT32_C(0x0)

/* ---- Registers: port ---- */

/* Offset in BAR0 of port n + 1; there are 2. */
#define VERBENA_PORT(n) (UINT32_C(0x1000) + (n) * UINT32_C(0x1000))

/* The link. (RO, 4 bytes) */
#define VERBENA_PORT_REG_LINK UINT32_C(0x0)
/* Speed in Mb/s. (RO, 4 bytes) */
#define VERBENA_PORT_REG_SPEED UINT32_C(0x4)
/* Ethernet address; the first byte of the wire is the lowest byte. (RO, 8 bytes) */
#define VERBENA_PORT_REG_MAC UINT32_C(0x8)
/* Largest path MTU now, in bytes. (RO, 4 bytes) */
#define VERBENA_PORT_REG_MTU UINT32_C(0x10)
/* Largest path MTU that the port can do, in bytes. (RO, 4 bytes) */
#define VERBENA_PORT_REG_MTU_MAX UINT32_C(0x14)
/* Entries of the GID table. (RO, 4 bytes) */
#define VERBENA_PORT_REG_GID_COUNT UINT32_C(0x18)
#define VERBENA_PORT_REG_GID_COUNT_RESET UINT32_C(0x10)
/* The one P_Key. (RO, 4 bytes) */
#define VERBENA_PORT_REG_PKEY UINT32_C(0x1c)
#define VERBENA_PORT_REG_PKEY_RESET UINT32_C(0xffff)
/* Packets sent, those that TX_DISCARDS counts included. (RO, 8 bytes) */
#define VERBENA_PORT_REG_TX_PACKETS UINT32_C(0x100)
#define VERBENA_PORT_REG_TX_PACKETS_RESET UINT64_C(0x0)
/* Bytes sent, from the Ethernet header to the ICRC. (RO, 8 bytes) */
#define VERBENA_PORT_REG_TX_BYTES UINT32_C(0x108)
#define VERBENA_PORT_REG_TX_BYTES_RESET UINT64_C(0x0)
/* Packets received. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_PACKETS UINT32_C(0x110)
#define VERBENA_PORT_REG_RX_PACKETS_RESET UINT64_C(0x0)
/* Bytes received, from the Ethernet header to the ICRC. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_BYTES UINT32_C(0x118)
#define VERBENA_PORT_REG_RX_BYTES_RESET UINT64_C(0x0)
/* Packets dropped because of a wrong ICRC. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_ICRC_ERRORS UINT32_C(0x120)
#define VERBENA_PORT_REG_RX_ICRC_ERRORS_RESET UINT64_C(0x0)
/* Packets dropped because a header made no sense. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_MALFORMED UINT32_C(0x128)
#define VERBENA_PORT_REG_RX_MALFORMED_RESET UINT64_C(0x0)
/* Packets dropped because no QP of this card takes them. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_NO_QP UINT32_C(0x130)
#define VERBENA_PORT_REG_RX_NO_QP_RESET UINT64_C(0x0)
/* UD packets dropped because of a wrong Q_Key. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_QKEY_ERRORS UINT32_C(0x138)
#define VERBENA_PORT_REG_RX_QKEY_ERRORS_RESET UINT64_C(0x0)
/* UD and UC messages, and copies of whole frames, dropped because no receive WQE was there. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_NO_RECV UINT32_C(0x140)
#define VERBENA_PORT_REG_RX_NO_RECV_RESET UINT64_C(0x0)
/* Packets dropped because the card had no room for them. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_OVERFLOW UINT32_C(0x148)
#define VERBENA_PORT_REG_RX_OVERFLOW_RESET UINT64_C(0x0)
/* Multicast packets sent. (RO, 8 bytes) */
#define VERBENA_PORT_REG_TX_MULTICAST UINT32_C(0x150)
#define VERBENA_PORT_REG_TX_MULTICAST_RESET UINT64_C(0x0)
/* Multicast packets received. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_MULTICAST UINT32_C(0x158)
#define VERBENA_PORT_REG_RX_MULTICAST_RESET UINT64_C(0x0)
/* PSNs of requests that are sent again; a READ counts those of its response. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RETRANSMITS UINT32_C(0x160)
#define VERBENA_PORT_REG_RETRANSMITS_RESET UINT64_C(0x0)
/* Time-outs of a QP that waited for an acknowledgement. (RO, 8 bytes) */
#define VERBENA_PORT_REG_ACK_TIMEOUTS UINT32_C(0x168)
#define VERBENA_PORT_REG_ACK_TIMEOUTS_RESET UINT64_C(0x0)
/* Request packets received with a PSN ahead of the expected one. (RO, 8 bytes) */
#define VERBENA_PORT_REG_OUT_OF_SEQUENCE UINT32_C(0x170)
#define VERBENA_PORT_REG_OUT_OF_SEQUENCE_RESET UINT64_C(0x0)
/* Request packets received a second time. (RO, 8 bytes) */
#define VERBENA_PORT_REG_DUPLICATE UINT32_C(0x178)
#define VERBENA_PORT_REG_DUPLICATE_RESET UINT64_C(0x0)
/* Sequence error NAKs received. (RO, 8 bytes) */
#define VERBENA_PORT_REG_SEQUENCE_NAK UINT32_C(0x180)
#define VERBENA_PORT_REG_SEQUENCE_NAK_RESET UINT64_C(0x0)
/* Receiver-not-ready NAKs sent. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RNR_NAK UINT32_C(0x188)
#define VERBENA_PORT_REG_RNR_NAK_RESET UINT64_C(0x0)
/* Receiver-not-ready NAKs received. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RNR_NAK_RECEIVED UINT32_C(0x190)
#define VERBENA_PORT_REG_RNR_NAK_RECEIVED_RESET UINT64_C(0x0)
/* Remote access NAKs sent. (RO, 8 bytes) */
#define VERBENA_PORT_REG_ACCESS_NAK UINT32_C(0x198)
#define VERBENA_PORT_REG_ACCESS_NAK_RESET UINT64_C(0x0)
/* Invalid request NAKs sent. (RO, 8 bytes) */
#define VERBENA_PORT_REG_INVALID_NAK UINT32_C(0x1a0)
#define VERBENA_PORT_REG_INVALID_NAK_RESET UINT64_C(0x0)
/* Remote operational error NAKs sent. (RO, 8 bytes) */
#define VERBENA_PORT_REG_OPERATION_NAK UINT32_C(0x1a8)
#define VERBENA_PORT_REG_OPERATION_NAK_RESET UINT64_C(0x0)
/* Packets received with an ECN mark. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_ECN_MARKED UINT32_C(0x1b0)
#define VERBENA_PORT_REG_RX_ECN_MARKED_RESET UINT64_C(0x0)
/* Congestion notification packets sent. (RO, 8 bytes) */
#define VERBENA_PORT_REG_TX_CNP UINT32_C(0x1b8)
#define VERBENA_PORT_REG_TX_CNP_RESET UINT64_C(0x0)
/* Congestion notification packets received. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_CNP UINT32_C(0x1c0)
#define VERBENA_PORT_REG_RX_CNP_RESET UINT64_C(0x0)
/* Pause frames sent. (RO, 8 bytes) */
#define VERBENA_PORT_REG_TX_PAUSE UINT32_C(0x1c8)
#define VERBENA_PORT_REG_TX_PAUSE_RESET UINT64_C(0x0)
/* Pause frames received. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_PAUSE UINT32_C(0x1d0)
#define VERBENA_PORT_REG_RX_PAUSE_RESET UINT64_C(0x0)
/* Whole frames dropped because no flow rule of the port takes them. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_NO_RULE UINT32_C(0x1d8)
#define VERBENA_PORT_REG_RX_NO_RULE_RESET UINT64_C(0x0)
/* Packets and whole frames lost because the link of this port was down. (RO, 8 bytes) */
#define VERBENA_PORT_REG_LINK_LOST UINT32_C(0x1e0)
#define VERBENA_PORT_REG_LINK_LOST_RESET UINT64_C(0x0)
/* Whole frames dropped because a flow rule of the port says so. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_RULE_DROP UINT32_C(0x1e8)
#define VERBENA_PORT_REG_RX_RULE_DROP_RESET UINT64_C(0x0)
/* Whole frames sent that are a part of a RAW_TSO. (RO, 8 bytes) */
#define VERBENA_PORT_REG_TX_SEGMENTED UINT32_C(0x1f0)
#define VERBENA_PORT_REG_TX_SEGMENTED_RESET UINT64_C(0x0)
/* Packets dropped because of a wrong P_Key. (RO, 8 bytes) */
#define VERBENA_PORT_REG_RX_PKEY_ERRORS UINT32_C(0x1f8)
#define VERBENA_PORT_REG_RX_PKEY_ERRORS_RESET UINT64_C(0x0)
/* Packets and whole frames that were sent, but lost before they left: what the port leads to did not take them in time, or nobody there has the address that they are for. (RO, 8 bytes) */
#define VERBENA_PORT_REG_TX_DISCARDS UINT32_C(0x200)
#define VERBENA_PORT_REG_TX_DISCARDS_RESET UINT64_C(0x0)

/* ---- Registers: gid ---- */

/* Offset of an entry in its port's block; there are 16. */
#define VERBENA_GID(n) (UINT32_C(0x800) + (n) * UINT32_C(0x20))

/* The GID, its 16 bytes in the order of the wire. (RO, 4 bytes, 4 of them) */
#define VERBENA_GID_REG_GID UINT32_C(0x0)
/* Whether the entry may be used, and its kind. (RO, 4 bytes) */
#define VERBENA_GID_REG_GID_ATTR UINT32_C(0x10)
/* Its VLAN. (RO, 4 bytes) */
#define VERBENA_GID_REG_GID_VLAN UINT32_C(0x14)

/* ---- Registers: page ---- */

/* Offset in BAR0, counted from 0; there are 64. */
#define VERBENA_PAGE(n) (UINT32_C(0x10000) + (n) * UINT32_C(0x1000))

/* Send queue doorbell. (WO, 8 bytes) */
#define VERBENA_PAGE_REG_SQ UINT32_C(0x0)
/* Receive queue doorbell. (WO, 8 bytes) */
#define VERBENA_PAGE_REG_RQ UINT32_C(0x8)
/* Shared receive queue doorbell. (WO, 8 bytes) */
#define VERBENA_PAGE_REG_SRQ UINT32_C(0x10)
/* Completion queue arm. (WO, 8 bytes) */
#define VERBENA_PAGE_REG_CQ_ARM UINT32_C(0x18)
/* Push window: 4 slots of 512 bytes. A WQE of at most 512 bytes that was written to the ring is written here too; the doorbell that follows says so and the card need not fetch it. (WO, 8 bytes, 256 of them) */
#define VERBENA_PAGE_REG_PUSH UINT32_C(0x800)

/* ---- Fields of registers and doorbells ---- */

/* Id: What PCI configuration space says too. */
#define VERBENA_ID_VENDOR_MASK UINT32_C(0xffff)
#define VERBENA_ID_VENDOR_SHIFT 0
#define VERBENA_ID_DEVICE_MASK UINT32_C(0xffff0000)
#define VERBENA_ID_DEVICE_SHIFT 16

/* Version: Version of this definition. */
#define VERBENA_VERSION_MINOR_MASK UINT32_C(0xffff)
#define VERBENA_VERSION_MINOR_SHIFT 0
#define VERBENA_VERSION_MAJOR_MASK UINT32_C(0xffff0000)
#define VERBENA_VERSION_MAJOR_SHIFT 16

/* Features: What the card can do. */
#define VERBENA_FEATURES_SET_MASK UINT64_C(0xffffffffffffffff)
#define VERBENA_FEATURES_SET_SHIFT 0

/* Function: Which function of the card this is. */
#define VERBENA_FUNCTION_INDEX_MASK UINT32_C(0xffff)
#define VERBENA_FUNCTION_INDEX_SHIFT 0
#define VERBENA_FUNCTION_CARD_MASK UINT32_C(0xffff0000)
#define VERBENA_FUNCTION_CARD_SHIFT 16

/* Control: What software wants of the function. */
#define VERBENA_CONTROL_ENABLE_MASK UINT32_C(0x1)
#define VERBENA_CONTROL_ENABLE_SHIFT 0
#define VERBENA_CONTROL_RESET_MASK UINT32_C(0x2)
#define VERBENA_CONTROL_RESET_SHIFT 1

/* Status: The state of the function. */
#define VERBENA_STATUS_READY_MASK UINT32_C(0x1)
#define VERBENA_STATUS_READY_SHIFT 0
#define VERBENA_STATUS_RESETTING_MASK UINT32_C(0x2)
#define VERBENA_STATUS_RESETTING_SHIFT 1
#define VERBENA_STATUS_ERROR_MASK UINT32_C(0x4)
#define VERBENA_STATUS_ERROR_SHIFT 2

/* Health: Health of the card. */
#define VERBENA_HEALTH_FATAL_MASK UINT32_C(0x1)
#define VERBENA_HEALTH_FATAL_SHIFT 0
#define VERBENA_HEALTH_ADMIN_STALLED_MASK UINT32_C(0x2)
#define VERBENA_HEALTH_ADMIN_STALLED_SHIFT 1
#define VERBENA_HEALTH_DMA_ERROR_MASK UINT32_C(0x4)
#define VERBENA_HEALTH_DMA_ERROR_SHIFT 2
#define VERBENA_HEALTH_EQ_OVERRUN_MASK UINT32_C(0x8)
#define VERBENA_HEALTH_EQ_OVERRUN_SHIFT 3
#define VERBENA_HEALTH_CQ_OVERRUN_MASK UINT32_C(0x10)
#define VERBENA_HEALTH_CQ_OVERRUN_SHIFT 4
#define VERBENA_HEALTH_MEMORY_CORRECTED_MASK UINT32_C(0x20)
#define VERBENA_HEALTH_MEMORY_CORRECTED_SHIFT 5
#define VERBENA_HEALTH_HOT_MASK UINT32_C(0x40)
#define VERBENA_HEALTH_HOT_SHIFT 6
#define VERBENA_HEALTH_TEMPERATURE_MASK UINT32_C(0xff00)
#define VERBENA_HEALTH_TEMPERATURE_SHIFT 8
#define VERBENA_HEALTH_HEARTBEAT_MASK UINT32_C(0xffff0000)
#define VERBENA_HEALTH_HEARTBEAT_SHIFT 16

/* Cause: Why the function failed; kept until the next reset. */
#define VERBENA_CAUSE_CODE_MASK UINT32_C(0xffff)
#define VERBENA_CAUSE_CODE_SHIFT 0
#define VERBENA_CAUSE_DETAIL_MASK UINT32_C(0xffff0000)
#define VERBENA_CAUSE_DETAIL_SHIFT 16

/* Link: The link of a port. */
#define VERBENA_LINK_UP_MASK UINT32_C(0x1)
#define VERBENA_LINK_UP_SHIFT 0
#define VERBENA_LINK_MODULE_MASK UINT32_C(0x2)
#define VERBENA_LINK_MODULE_SHIFT 1
#define VERBENA_LINK_RX_PAUSE_MASK UINT32_C(0x4)
#define VERBENA_LINK_RX_PAUSE_SHIFT 2
#define VERBENA_LINK_TX_PAUSE_MASK UINT32_C(0x8)
#define VERBENA_LINK_TX_PAUSE_SHIFT 3
#define VERBENA_LINK_STATE_MASK UINT32_C(0xf0)
#define VERBENA_LINK_STATE_SHIFT 4
#define VERBENA_LINK_PHYS_MASK UINT32_C(0xf00)
#define VERBENA_LINK_PHYS_SHIFT 8
#define VERBENA_LINK_CHANGES_MASK UINT32_C(0xffff0000)
#define VERBENA_LINK_CHANGES_SHIFT 16

/* GidAttr: What an entry of the GID table is. */
#define VERBENA_GID_ATTR_VALID_MASK UINT32_C(0x1)
#define VERBENA_GID_ATTR_VALID_SHIFT 0
#define VERBENA_GID_ATTR_KIND_MASK UINT32_C(0xff00)
#define VERBENA_GID_ATTR_KIND_SHIFT 8

/* GidVlan: The VLAN of an entry of the GID table. */
#define VERBENA_GID_VLAN_ID_MASK UINT32_C(0xfff)
#define VERBENA_GID_VLAN_ID_SHIFT 0
#define VERBENA_GID_VLAN_PRESENT_MASK UINT32_C(0x10000)
#define VERBENA_GID_VLAN_PRESENT_SHIFT 16

/* SqDoorbell: Send queue doorbell: WQEs up to `index` are ready. */
#define VERBENA_SQ_DOORBELL_QPN_MASK UINT64_C(0xffffff)
#define VERBENA_SQ_DOORBELL_QPN_SHIFT 0
#define VERBENA_SQ_DOORBELL_PUSHED_MASK UINT64_C(0x1000000)
#define VERBENA_SQ_DOORBELL_PUSHED_SHIFT 24
#define VERBENA_SQ_DOORBELL_SLOT_MASK UINT64_C(0x6000000)
#define VERBENA_SQ_DOORBELL_SLOT_SHIFT 25
#define VERBENA_SQ_DOORBELL_BLOCKS_MASK UINT64_C(0x38000000)
#define VERBENA_SQ_DOORBELL_BLOCKS_SHIFT 27
#define VERBENA_SQ_DOORBELL_INDEX_MASK UINT64_C(0xffffffff00000000)
#define VERBENA_SQ_DOORBELL_INDEX_SHIFT 32

/* RqDoorbell: Receive queue doorbell: WQEs up to `index` are ready. */
#define VERBENA_RQ_DOORBELL_QPN_MASK UINT64_C(0xffffff)
#define VERBENA_RQ_DOORBELL_QPN_SHIFT 0
#define VERBENA_RQ_DOORBELL_INDEX_MASK UINT64_C(0xffffffff00000000)
#define VERBENA_RQ_DOORBELL_INDEX_SHIFT 32

/* SrqDoorbell: Shared receive queue doorbell: WQEs up to `index` are ready. */
#define VERBENA_SRQ_DOORBELL_SRQN_MASK UINT64_C(0xffffff)
#define VERBENA_SRQ_DOORBELL_SRQN_SHIFT 0
#define VERBENA_SRQ_DOORBELL_INDEX_MASK UINT64_C(0xffffffff00000000)
#define VERBENA_SRQ_DOORBELL_INDEX_SHIFT 32

/* CqArm: Completion queue arm: the next CQE at or after `index` raises an event, or one that is there already if no event was raised for it or a later one. */
#define VERBENA_CQ_ARM_CQN_MASK UINT64_C(0xffffff)
#define VERBENA_CQ_ARM_CQN_SHIFT 0
#define VERBENA_CQ_ARM_SOLICITED_ONLY_MASK UINT64_C(0x1000000)
#define VERBENA_CQ_ARM_SOLICITED_ONLY_SHIFT 24
#define VERBENA_CQ_ARM_INDEX_MASK UINT64_C(0xffffffff00000000)
#define VERBENA_CQ_ARM_INDEX_SHIFT 32


/* ---- Values ---- */

/* What a send WQE asks for. */
enum verbena_wqe_opcode {
    VERBENA_WQE_OPCODE_NOP = 0x0, /* Nothing; completes in order. */
    VERBENA_WQE_OPCODE_SEND = 0x1, /* Send to the peer's next receive WQE. */
    VERBENA_WQE_OPCODE_SEND_WITH_IMM = 0x2, /* Send with 32 bits of immediate data. */
    VERBENA_WQE_OPCODE_SEND_WITH_INV = 0x3, /* Send, and invalidate the peer's R_Key in `imm`. */
    VERBENA_WQE_OPCODE_WRITE = 0x4, /* RDMA write. */
    VERBENA_WQE_OPCODE_WRITE_WITH_IMM = 0x5, /* RDMA write that also consumes a receive WQE of the peer. */
    VERBENA_WQE_OPCODE_READ = 0x6, /* RDMA read. */
    VERBENA_WQE_OPCODE_CMP_SWAP = 0x7, /* Atomic compare and swap of 8 bytes. */
    VERBENA_WQE_OPCODE_FETCH_ADD = 0x8, /* Atomic fetch and add of 8 bytes. */
    VERBENA_WQE_OPCODE_LOCAL_INV = 0x9, /* Invalidate the local key in `imm`. */
    VERBENA_WQE_OPCODE_BIND_MW = 0xa, /* Bind a memory window. */
    VERBENA_WQE_OPCODE_RAW_ETH = 0xb, /* A whole Ethernet frame of a raw packet QP. */
    VERBENA_WQE_OPCODE_RAW_TSO = 0xc, /* Bytes of TCP that a raw packet QP sends as frames: behind the headers in WqeTso, each with the next bytes of the data (TSO). */
};

/* Access rights; the numbers are those of `ibv_access_flags`. */
/* The card may write for local requests. */
#define VERBENA_ACCESS_LOCAL_WRITE UINT32_C(0x1)
/* A peer may write. */
#define VERBENA_ACCESS_REMOTE_WRITE UINT32_C(0x2)
/* A peer may read. */
#define VERBENA_ACCESS_REMOTE_READ UINT32_C(0x4)
/* A peer may do atomics. */
#define VERBENA_ACCESS_REMOTE_ATOMIC UINT32_C(0x8)
/* Windows may be bound to it. */
#define VERBENA_ACCESS_MW_BIND UINT32_C(0x10)
/* Remote addresses count from 0 instead of from the virtual address. */
#define VERBENA_ACCESS_ZERO_BASED UINT32_C(0x20)

/* What completed; the numbers are those of `ibv_wc_opcode`. */
enum verbena_cqe_opcode {
    VERBENA_CQE_OPCODE_SEND = 0x0, /* SEND of any kind. */
    VERBENA_CQE_OPCODE_RDMA_WRITE = 0x1, /* WRITE of any kind. */
    VERBENA_CQE_OPCODE_RDMA_READ = 0x2, /* READ. */
    VERBENA_CQE_OPCODE_COMP_SWAP = 0x3, /* Compare and swap. */
    VERBENA_CQE_OPCODE_FETCH_ADD = 0x4, /* Fetch and add. */
    VERBENA_CQE_OPCODE_BIND_MW = 0x5, /* Window bound. */
    VERBENA_CQE_OPCODE_LOCAL_INV = 0x6, /* Key invalidated. */
    VERBENA_CQE_OPCODE_TSO = 0x7, /* RAW_TSO. */
    VERBENA_CQE_OPCODE_RECV = 0x80, /* A receive WQE took a SEND. */
    VERBENA_CQE_OPCODE_RECV_RDMA_WITH_IMM = 0x81, /* A receive WQE took a WRITE_WITH_IMM. */
};

/* How it ended; the numbers are those of `ibv_wc_status`. */
enum verbena_cqe_status {
    VERBENA_CQE_STATUS_SUCCESS = 0x0, /* Success. */
    VERBENA_CQE_STATUS_LOC_LEN_ERR = 0x1, /* The local data was longer than allowed or than the buffer. */
    VERBENA_CQE_STATUS_LOC_QP_OP_ERR = 0x2, /* The local QP could not do this request. */
    VERBENA_CQE_STATUS_LOC_EEC_OP_ERR = 0x3, /* Not used. */
    VERBENA_CQE_STATUS_LOC_PROT_ERR = 0x4, /* A local key, bound or right was wrong. */
    VERBENA_CQE_STATUS_WR_FLUSH_ERR = 0x5, /* The QP was in error before this request ran. */
    VERBENA_CQE_STATUS_MW_BIND_ERR = 0x6, /* The window could not be bound, or the key not invalidated. */
    VERBENA_CQE_STATUS_BAD_RESP_ERR = 0x7, /* The peer's answer made no sense. */
    VERBENA_CQE_STATUS_LOC_ACCESS_ERR = 0x8, /* A peer's WRITE with immediate data named memory that it may not write. */
    VERBENA_CQE_STATUS_REM_INV_REQ_ERR = 0x9, /* The peer refused the request as invalid. */
    VERBENA_CQE_STATUS_REM_ACCESS_ERR = 0xa, /* The peer refused the key, bounds or rights. */
    VERBENA_CQE_STATUS_REM_OP_ERR = 0xb, /* The peer could not finish the request. */
    VERBENA_CQE_STATUS_RETRY_EXC_ERR = 0xc, /* The peer did not answer. */
    VERBENA_CQE_STATUS_RNR_RETRY_EXC_ERR = 0xd, /* The peer had no receive WQE for too long. */
    VERBENA_CQE_STATUS_LOC_RDD_VIOL_ERR = 0xe, /* Not used. */
    VERBENA_CQE_STATUS_REM_INV_RD_REQ_ERR = 0xf, /* Not used. */
    VERBENA_CQE_STATUS_REM_ABORT_ERR = 0x10, /* The peer aborted the request. */
    VERBENA_CQE_STATUS_INV_EECN_ERR = 0x11, /* Not used. */
    VERBENA_CQE_STATUS_INV_EEC_STATE_ERR = 0x12, /* Not used. */
    VERBENA_CQE_STATUS_FATAL_ERR = 0x13, /* The card failed. */
    VERBENA_CQE_STATUS_RESP_TIMEOUT_ERR = 0x14, /* Not used. */
    VERBENA_CQE_STATUS_GENERAL_ERR = 0x15, /* Anything else. */
    VERBENA_CQE_STATUS_TM_ERR = 0x16, /* Not used. */
    VERBENA_CQE_STATUS_TM_RNDV_INCOMPLETE = 0x17, /* Not used. */
};

/* Vendor syndrome of a CQE or of an admin reply. */
enum verbena_syndrome {
    VERBENA_SYNDROME_NONE = 0x0, /* Nothing to say. */
    VERBENA_SYNDROME_BAD_OPCODE = 0x1, /* The WQE's opcode is not known. */
    VERBENA_SYNDROME_OPCODE_QP_TYPE = 0x2, /* The type of the QP does not allow the opcode. */
    VERBENA_SYNDROME_BAD_WQE = 0x3, /* `ds`, `num_sge` or a length of the WQE do not agree. */
    VERBENA_SYNDROME_BAD_WQE_INDEX = 0x4, /* The WQE's index is not the one expected here. */
    VERBENA_SYNDROME_TOO_MANY_SGE = 0x5, /* Too many SGEs. */
    VERBENA_SYNDROME_INLINE_TOO_LONG = 0x6, /* Too much inline data. */
    VERBENA_SYNDROME_MESSAGE_TOO_LONG = 0x7, /* The message is longer than the largest one, or than the MTU (UD). */
    VERBENA_SYNDROME_RECV_TOO_SHORT = 0x8, /* The message does not fit the receive WQE. */
    VERBENA_SYNDROME_ATOMIC_ALIGN = 0x9, /* An atomic is not of 8 bytes or not aligned to 8. */
    VERBENA_SYNDROME_BAD_ADDRESS = 0xa, /* A key or address is not that of an address handle that can be used. */
    VERBENA_SYNDROME_LKEY_UNKNOWN = 0x10, /* No L_Key of this number. */
    VERBENA_SYNDROME_LKEY_PD = 0x11, /* The L_Key is of another PD. */
    VERBENA_SYNDROME_LKEY_BOUNDS = 0x12, /* The L_Key does not cover the range. */
    VERBENA_SYNDROME_LKEY_ACCESS = 0x13, /* The L_Key does not allow writing. */
    VERBENA_SYNDROME_LOCAL_DMA = 0x14, /* The memory of a local key is gone, or the bus refused it. */
    VERBENA_SYNDROME_RKEY_UNKNOWN = 0x20, /* No R_Key of this number. */
    VERBENA_SYNDROME_RKEY_PD = 0x21, /* The R_Key is of another PD. */
    VERBENA_SYNDROME_RKEY_BOUNDS = 0x22, /* The R_Key does not cover the range. */
    VERBENA_SYNDROME_RKEY_ACCESS = 0x23, /* The R_Key does not allow this access. */
    VERBENA_SYNDROME_QP_ACCESS = 0x24, /* The QP does not allow this access. */
    VERBENA_SYNDROME_RKEY_QP = 0x25, /* The window belongs to another QP. */
    VERBENA_SYNDROME_REMOTE_DMA = 0x26, /* The memory of a remote key is gone, or the bus refused it. */
    VERBENA_SYNDROME_KEY_NOT_INVALIDATABLE = 0x27, /* The key cannot be invalidated. */
    VERBENA_SYNDROME_BAD_BIND = 0x28, /* The window cannot be bound like this. */
    VERBENA_SYNDROME_ACK_TIMEOUT = 0x30, /* No acknowledgement in time. */
    VERBENA_SYNDROME_SEQUENCE_NAK = 0x31, /* The peer repeated its sequence error NAK too often. */
    VERBENA_SYNDROME_RNR_NAK = 0x32, /* The peer repeated its receiver-not-ready NAK too often. */
    VERBENA_SYNDROME_NAK_INVALID_REQUEST = 0x33, /* The peer's NAK: invalid request. */
    VERBENA_SYNDROME_NAK_REMOTE_ACCESS = 0x34, /* The peer's NAK: remote access error. */
    VERBENA_SYNDROME_NAK_REMOTE_OPERATION = 0x35, /* The peer's NAK: remote operational error. */
    VERBENA_SYNDROME_BAD_RESPONSE = 0x36, /* The peer's answer does not fit the request. */
    VERBENA_SYNDROME_NO_ROUTE = 0x37, /* No path to the destination, or the port is down. */
    VERBENA_SYNDROME_PACKET_SEQUENCE = 0x38, /* The opcodes of the packets do not follow one another. */
    VERBENA_SYNDROME_TOO_MANY_RD_ATOMIC = 0x39, /* More READs or atomics outstanding than agreed. */
    VERBENA_SYNDROME_PACKET_LENGTH = 0x3a, /* A packet's length does not fit its header. */
    VERBENA_SYNDROME_FLUSH_MODIFIED = 0x40, /* Flushed: software moved the QP to error. */
    VERBENA_SYNDROME_FLUSH_EARLIER = 0x41, /* Flushed: an earlier request of the QP failed. */
    VERBENA_SYNDROME_FLUSH_RESPONDER = 0x42, /* Flushed: the peer's request failed at this QP's responder. */
    VERBENA_SYNDROME_FLUSH_CARD = 0x43, /* Flushed: the card or its port failed. */
    VERBENA_SYNDROME_CQ_OVERRUN = 0x48, /* The completion queue is full. */
    VERBENA_SYNDROME_NO_OBJECT = 0x60, /* Command: the object's number is not in use. */
    VERBENA_SYNDROME_NOT_OWNER = 0x61, /* Command: the object is of another function or PD. */
    VERBENA_SYNDROME_STILL_USED = 0x62, /* Command: others still use the object. */
    VERBENA_SYNDROME_BAD_SIZE = 0x63, /* Command: a ring's size is not allowed. */
    VERBENA_SYNDROME_BAD_IOVA = 0x64, /* Command: an address is not aligned or cannot be reached. */
    VERBENA_SYNDROME_BAD_MAILBOX = 0x65, /* Command: the mailbox is too short. */
    VERBENA_SYNDROME_BAD_ACCESS = 0x66, /* Command: access rights that do not go together. */
    VERBENA_SYNDROME_ATTR_MISSING = 0x67, /* Command: a required attribute is missing. */
    VERBENA_SYNDROME_ATTR_NOT_ALLOWED = 0x68, /* Command: an attribute is not allowed in this transition. */
    VERBENA_SYNDROME_ATTR_RANGE = 0x69, /* Command: an attribute's value is out of range. */
    VERBENA_SYNDROME_WRONG_STATE = 0x6a, /* Command: the QP is not in the state that was named. */
    VERBENA_SYNDROME_BAD_GID_INDEX = 0x6b, /* Command: no such GID index. */
    VERBENA_SYNDROME_BAD_PORT = 0x6c, /* Command: no such port. */
    VERBENA_SYNDROME_TABLE_FULL = 0x6d, /* Command: the table of this kind of object is full. */
    VERBENA_SYNDROME_RESERVED_SET = 0x6e, /* Command: reserved bits are set. */
};

/* What the card finds in a frame, behind its VLAN tags. */
enum verbena_frame_kind {
    VERBENA_FRAME_KIND_OTHER = 0x0, /* No IP, or more tags than it passes. */
    VERBENA_FRAME_KIND_IPV4 = 0x1, /* IPv4 with something else than TCP or UDP. */
    VERBENA_FRAME_KIND_IPV4_FRAGMENT = 0x2, /* A part of an IPv4 packet. */
    VERBENA_FRAME_KIND_IPV4_TCP = 0x3, /* TCP over IPv4. */
    VERBENA_FRAME_KIND_IPV4_UDP = 0x4, /* UDP over IPv4. */
    VERBENA_FRAME_KIND_IPV6 = 0x5, /* IPv6 with something else than TCP or UDP. */
    VERBENA_FRAME_KIND_IPV6_FRAGMENT = 0x6, /* A part of an IPv6 packet. */
    VERBENA_FRAME_KIND_IPV6_TCP = 0x7, /* TCP over IPv6. */
    VERBENA_FRAME_KIND_IPV6_UDP = 0x8, /* UDP over IPv6. */
};

/* What happened. */
enum verbena_event_kind {
    VERBENA_EVENT_KIND_COMPLETION = 0x1, /* An armed CQ has a new CQE; `object` is the CQN. */
    VERBENA_EVENT_KIND_CQ_ERR = 0x2, /* A CQ overran; `object` is the CQN. */
    VERBENA_EVENT_KIND_QP_FATAL = 0x3, /* A QP failed without a CQE to say so; `object` is the QPN. */
    VERBENA_EVENT_KIND_QP_REQ_ERR = 0x4, /* A peer's request was invalid; `object` is the QPN. */
    VERBENA_EVENT_KIND_QP_ACCESS_ERR = 0x5, /* A peer's request violated access rights; `object` is the QPN. */
    VERBENA_EVENT_KIND_COMM_EST = 0x6, /* First packet on a QP in RTR; `object` is the QPN. */
    VERBENA_EVENT_KIND_SQ_DRAINED = 0x7, /* The send queue drained after SQD; `object` is the QPN. */
    VERBENA_EVENT_KIND_SRQ_ERR = 0x8, /* An SRQ failed; `object` is the SRQN. */
    VERBENA_EVENT_KIND_SRQ_LIMIT = 0x9, /* An SRQ fell below its limit; `object` is the SRQN. */
    VERBENA_EVENT_KIND_QP_LAST_WQE = 0xa, /* A QP took its last WQE from its SRQ; `object` is the QPN. */
    VERBENA_EVENT_KIND_PORT_ACTIVE = 0xb, /* The link came up. */
    VERBENA_EVENT_KIND_PORT_ERR = 0xc, /* The link went down. */
    VERBENA_EVENT_KIND_DEVICE_FATAL = 0xd, /* The card failed; `data` is the error cause. */
    VERBENA_EVENT_KIND_WQ_FATAL = 0xe, /* A receive work queue failed; `object` is its number, a QPN. */
    VERBENA_EVENT_KIND_GID_CHANGE = 0xf, /* An entry of the port's GID table was added or removed. */
};

/* What a command asks for. */
enum verbena_admin_opcode {
    VERBENA_ADMIN_OPCODE_NOP = 0x0, /* Nothing. */
    VERBENA_ADMIN_OPCODE_QUERY_CARD = 0x1, /* Limits of the card. */
    VERBENA_ADMIN_OPCODE_QUERY_PORT = 0x2, /* State of a port. */
    VERBENA_ADMIN_OPCODE_SET_PORT = 0x3, /* Settings of a port. */
    VERBENA_ADMIN_OPCODE_QUERY_ETHERNET = 0x4, /* Limits of whole Ethernet frames. */
    VERBENA_ADMIN_OPCODE_ALLOC_PD = 0x10, /* New protection domain. */
    VERBENA_ADMIN_OPCODE_FREE_PD = 0x11, /* Frees a protection domain. */
    VERBENA_ADMIN_OPCODE_OPEN_XRCD = 0x14, /* Opens an XRC domain, a new one or that of other functions. */
    VERBENA_ADMIN_OPCODE_CLOSE_XRCD = 0x15, /* Closes an XRC domain; it ends with the last function that has it open. */
    VERBENA_ADMIN_OPCODE_CREATE_MR = 0x18, /* Registers memory. */
    VERBENA_ADMIN_OPCODE_DESTROY_MR = 0x19, /* Frees a memory registration. */
    VERBENA_ADMIN_OPCODE_CREATE_MW = 0x1a, /* New memory window. */
    VERBENA_ADMIN_OPCODE_DESTROY_MW = 0x1b, /* Frees a memory window. */
    VERBENA_ADMIN_OPCODE_QUERY_MW = 0x1c, /* State of a memory window. */
    VERBENA_ADMIN_OPCODE_MODIFY_MR = 0x1d, /* Changes a memory registration, whose key stays. */
    VERBENA_ADMIN_OPCODE_CREATE_EQ = 0x20, /* New event queue. */
    VERBENA_ADMIN_OPCODE_DESTROY_EQ = 0x21, /* Frees an event queue. */
    VERBENA_ADMIN_OPCODE_CREATE_CQ = 0x28, /* New completion queue. */
    VERBENA_ADMIN_OPCODE_RESIZE_CQ = 0x29, /* Moves a completion queue to another ring. */
    VERBENA_ADMIN_OPCODE_DESTROY_CQ = 0x2a, /* Frees a completion queue. */
    VERBENA_ADMIN_OPCODE_MODIFY_CQ = 0x2b, /* Changes the moderation of a completion queue's events. */
    VERBENA_ADMIN_OPCODE_CREATE_SRQ = 0x30, /* New shared receive queue. */
    VERBENA_ADMIN_OPCODE_MODIFY_SRQ = 0x31, /* Changes the limit of a shared receive queue. */
    VERBENA_ADMIN_OPCODE_QUERY_SRQ = 0x32, /* State of a shared receive queue. */
    VERBENA_ADMIN_OPCODE_DESTROY_SRQ = 0x33, /* Frees a shared receive queue. */
    VERBENA_ADMIN_OPCODE_CREATE_QP = 0x38, /* New queue pair, in RESET. */
    VERBENA_ADMIN_OPCODE_MODIFY_QP = 0x39, /* Changes a queue pair's state and attributes. */
    VERBENA_ADMIN_OPCODE_QUERY_QP = 0x3a, /* State of a queue pair. */
    VERBENA_ADMIN_OPCODE_DESTROY_QP = 0x3b, /* Frees a queue pair; an XRC_RECV one when no function holds it any more. */
    VERBENA_ADMIN_OPCODE_OPEN_QP = 0x3c, /* Holds an XRC_RECV queue pair that another function has created. */
    VERBENA_ADMIN_OPCODE_ATTACH_MCAST = 0x40, /* Joins a multicast group. */
    VERBENA_ADMIN_OPCODE_DETACH_MCAST = 0x41, /* Leaves a multicast group. */
    VERBENA_ADMIN_OPCODE_CREATE_FLOW = 0x44, /* New flow rule: which frames a raw packet QP receives. */
    VERBENA_ADMIN_OPCODE_DESTROY_FLOW = 0x45, /* Frees a flow rule. */
    VERBENA_ADMIN_OPCODE_QUERY_FLOW = 0x46, /* What a flow rule has counted. */
    VERBENA_ADMIN_OPCODE_SET_VLAN = 0x47, /* Whether the function takes a VLAN, by its flow rules with `by_vlan`. */
    VERBENA_ADMIN_OPCODE_RESOLVE = 0x48, /* The Ethernet address of a GID. */
    VERBENA_ADMIN_OPCODE_CREATE_TABLE = 0x4c, /* New indirection table of receive work queues. */
    VERBENA_ADMIN_OPCODE_MODIFY_TABLE = 0x4d, /* Changes all entries of an indirection table, between two frames. */
    VERBENA_ADMIN_OPCODE_DESTROY_TABLE = 0x4e, /* Frees an indirection table. */
    VERBENA_ADMIN_OPCODE_ALLOC_PAGE = 0x50, /* Takes a doorbell page. */
    VERBENA_ADMIN_OPCODE_FREE_PAGE = 0x51, /* Frees a doorbell page. */
    VERBENA_ADMIN_OPCODE_ALLOC_MEMORY = 0x58, /* Takes a part of the card's own memory, zeroed. */
    VERBENA_ADMIN_OPCODE_FREE_MEMORY = 0x59, /* Frees a part of the card's own memory. */
    VERBENA_ADMIN_OPCODE_WRITE_MEMORY = 0x5a, /* Copies the bytes at `in_iova` into the card's own memory. */
    VERBENA_ADMIN_OPCODE_READ_MEMORY = 0x5b, /* Copies bytes of the card's own memory to `out_iova`. */
    VERBENA_ADMIN_OPCODE_SET_LAG = 0x60, /* Makes the ports of the card one, or two again. No QP may be there. */
    VERBENA_ADMIN_OPCODE_QUERY_LAG = 0x61, /* Whether the ports are one, and how a port of it is. */
};

/* How a command ended. */
enum verbena_admin_status {
    VERBENA_ADMIN_STATUS_OK = 0x0, /* Done. */
    VERBENA_ADMIN_STATUS_BAD_OPCODE = 0x1, /* The opcode is not known. */
    VERBENA_ADMIN_STATUS_BAD_PARAM = 0x2, /* A parameter is out of range. */
    VERBENA_ADMIN_STATUS_NO_RESOURCE = 0x3, /* The card has no more of this kind. */
    VERBENA_ADMIN_STATUS_BAD_STATE = 0x4, /* The object is in a state that does not allow it. */
    VERBENA_ADMIN_STATUS_IN_USE = 0x5, /* Others still use the object. */
    VERBENA_ADMIN_STATUS_NOT_FOUND = 0x6, /* No object of this number. */
    VERBENA_ADMIN_STATUS_LIMIT = 0x7, /* Above a limit of the card. */
    VERBENA_ADMIN_STATUS_NOT_SUPPORTED = 0x8, /* Known, but this card does not do it. */
    VERBENA_ADMIN_STATUS_INTERNAL = 0x9, /* The card failed. */
    VERBENA_ADMIN_STATUS_DMA_ERROR = 0xa, /* A mailbox or ring could not be read or written. */
};

/* State of a queue pair; the numbers are those of `ibv_qp_state`. */
enum verbena_qp_state {
    VERBENA_QP_STATE_RESET = 0x0, /* Nothing runs. */
    VERBENA_QP_STATE_INIT = 0x1, /* Receives may be posted. */
    VERBENA_QP_STATE_RTR = 0x2, /* Ready to receive. */
    VERBENA_QP_STATE_RTS = 0x3, /* Ready to send. */
    VERBENA_QP_STATE_SQD = 0x4, /* The send queue drains. */
    VERBENA_QP_STATE_SQE = 0x5, /* The send queue is in error. */
    VERBENA_QP_STATE_ERR = 0x6, /* Everything is flushed. */
};

/* Transport of a queue pair; the numbers below 0xf0 are those of `ibv_qp_type`. */
enum verbena_qp_type {
    VERBENA_QP_TYPE_RC = 0x2, /* Reliable connection. */
    VERBENA_QP_TYPE_UC = 0x3, /* Unreliable connection. */
    VERBENA_QP_TYPE_UD = 0x4, /* Unreliable datagram. */
    VERBENA_QP_TYPE_RAW_PACKET = 0x8, /* Whole Ethernet frames. */
    VERBENA_QP_TYPE_XRC_SEND = 0x9, /* Sending end of an extended reliable connection. */
    VERBENA_QP_TYPE_XRC_RECV = 0xa, /* Receiving end of an extended reliable connection. */
    VERBENA_QP_TYPE_WQ = 0xf0, /* Receive work queue: a receive queue for whole Ethernet frames, without a send queue, that indirection tables name. It goes from RESET to RTR. */
    VERBENA_QP_TYPE_RX_HASH = 0xf1, /* Whole Ethernet frames, spread over the work queues of an indirection table by a hash. It has no queues and no states, and receives from its creation on. */
};

/* The fields of a frame that are hashed, in this order: source address, destination address, source port, destination port; the numbers are those of `ibv_rx_hash_fields`. What a frame does not have is left out: a fragment has no ports, and the hash of a frame without any of the fields is 0. */
/* Source address of IPv4. */
#define VERBENA_HASH_FIELDS_SRC_IPV4 UINT32_C(0x1)
/* Destination address of IPv4. */
#define VERBENA_HASH_FIELDS_DST_IPV4 UINT32_C(0x2)
/* Source address of IPv6. */
#define VERBENA_HASH_FIELDS_SRC_IPV6 UINT32_C(0x4)
/* Destination address of IPv6. */
#define VERBENA_HASH_FIELDS_DST_IPV6 UINT32_C(0x8)
/* Source port of TCP. */
#define VERBENA_HASH_FIELDS_SRC_PORT_TCP UINT32_C(0x10)
/* Destination port of TCP. */
#define VERBENA_HASH_FIELDS_DST_PORT_TCP UINT32_C(0x20)
/* Source port of UDP. */
#define VERBENA_HASH_FIELDS_SRC_PORT_UDP UINT32_C(0x40)
/* Destination port of UDP. */
#define VERBENA_HASH_FIELDS_DST_PORT_UDP UINT32_C(0x80)

/* How an RX-hash QP computes the hash; the numbers are those of `ibv_rx_hash_function_flags`. */
enum verbena_hash_function {
    VERBENA_HASH_FUNCTION_TOEPLITZ = 0x1, /* Toeplitz, with the 40 bytes of `hash_key0` to `hash_key4`. */
};

/* How a memory registration finds its memory. */
enum verbena_mr_mode {
    VERBENA_MR_MODE_DIRECT = 0x0, /* One range of DMA addresses. */
    VERBENA_MR_MODE_PAGE_LIST = 0x1, /* A list of pages. */
    VERBENA_MR_MODE_NULL = 0x2, /* There is none (NULL_MR): it reads as zeros, and what is written to it is lost. It has all addresses and no R_Key. */
    VERBENA_MR_MODE_ON_DEMAND = 0x3, /* Whatever the process that created it has at an address when that is accessed (ON_DEMAND): nothing is mapped for DMA before. */
    VERBENA_MR_MODE_ON_CARD = 0x4, /* The card's own (ON_CARD_MEMORY), a part of what ALLOC_MEMORY gave. */
};

/* Kind of a GID; the numbers are those of `ibv_gid_type`. */
enum verbena_gid_type {
    VERBENA_GID_TYPE_IB = 0x0, /* InfiniBand; also an empty entry. */
    VERBENA_GID_TYPE_ROCE_V1 = 0x1, /* RoCE version 1. */
    VERBENA_GID_TYPE_ROCE_V2 = 0x2, /* RoCE version 2. */
};

/* Kind of a flow rule; the numbers are those of `ibv_flow_attr_type`, up to SNIFFER. */
enum verbena_flow_kind {
    VERBENA_FLOW_KIND_NORMAL = 0x0, /* Frames whose fields match. */
    VERBENA_FLOW_KIND_ALL_DEFAULT = 0x1, /* Every frame that no NORMAL rule keeps. */
    VERBENA_FLOW_KIND_MC_DEFAULT = 0x2, /* Every multicast frame that no NORMAL rule keeps. */
    VERBENA_FLOW_KIND_SNIFFER = 0x3, /* A copy of every frame, whatever other rules say. */
    VERBENA_FLOW_KIND_KERNEL = 0x4, /* For the kernel of the machine: frames whose fields match and that no rule of another kind keeps, and a copy of ARP and multicast frames that others keep. A multicast frame that a rule for ports of TCP or UDP keeps is not copied. Of the KERNEL rules that match, those of the best priority get a copy each. */
};

/* The VLAN tags of a frame. */
/* It has one. */
#define VERBENA_FRAME_TAGS_ANY UINT32_C(0x1)
/* It has a second one. */
#define VERBENA_FRAME_TAGS_SECOND UINT32_C(0x2)
/* The first is one of a service (0x88a8), not of a customer (0x8100). */
#define VERBENA_FRAME_TAGS_SERVICE UINT32_C(0x4)

/* How the ports of a card are one; the numbers are those of Linux bonding. */
enum verbena_lag_mode {
    VERBENA_LAG_MODE_OFF = 0x0, /* They are two. */
    VERBENA_LAG_MODE_ACTIVE_BACKUP = 0x1, /* Port 1 has the traffic, and port 2 while the link of port 1 is down. */
    VERBENA_LAG_MODE_XOR = 0x2, /* Both have it (a static aggregation). */
    VERBENA_LAG_MODE_LACP = 0x4, /* Those have it that the card negotiates by LACP. */
};

/* Which port the packets of a QP leave by. */
enum verbena_lag_select {
    VERBENA_LAG_SELECT_AFFINITY = 0x0, /* Each QP has a port, in turn, from RTR on. */
    VERBENA_LAG_SELECT_HASH = 0x1, /* By a hash of the UDP source port; of a frame, by a hash of its fields. */
};

/* How often the partner is asked to send LACPDUs. */
enum verbena_lacp_rate {
    VERBENA_LACP_RATE_FAST = 0x0, /* Every second; it is gone after three. */
    VERBENA_LACP_RATE_SLOW = 0x1, /* Every thirty seconds; it is gone after ninety. */
};

/* The state of a port in a LACPDU (IEEE 802.1AX-2014, 6.4.2.3). */
/* It sends without being asked. */
#define VERBENA_LACP_STATE_ACTIVITY UINT32_C(0x1)
/* Its partner is to send every second. */
#define VERBENA_LACP_STATE_TIMEOUT UINT32_C(0x2)
/* It can be one of several. */
#define VERBENA_LACP_STATE_AGGREGATION UINT32_C(0x4)
/* It is in the aggregation that it belongs to. */
#define VERBENA_LACP_STATE_SYNCHRONIZATION UINT32_C(0x8)
/* It takes frames. */
#define VERBENA_LACP_STATE_COLLECTING UINT32_C(0x10)
/* It sends frames. */
#define VERBENA_LACP_STATE_DISTRIBUTING UINT32_C(0x20)
/* What it knows of its partner was set, not received. */
#define VERBENA_LACP_STATE_DEFAULTED UINT32_C(0x40)
/* Its partner has not been heard of in time. */
#define VERBENA_LACP_STATE_EXPIRED UINT32_C(0x80)

/* What the card can do. */
/* Reliable connections. */
#define VERBENA_FEATURE_SET_RC UINT64_C(0x1)
/* Unreliable connections. */
#define VERBENA_FEATURE_SET_UC UINT64_C(0x2)
/* Unreliable datagrams. */
#define VERBENA_FEATURE_SET_UD UINT64_C(0x4)
/* Raw packet QPs. */
#define VERBENA_FEATURE_SET_RAW_ETH UINT64_C(0x8)
/* Shared receive queues. */
#define VERBENA_FEATURE_SET_SRQ UINT64_C(0x10)
/* CMP_SWAP and FETCH_ADD. */
#define VERBENA_FEATURE_SET_ATOMICS UINT64_C(0x20)
/* Memory windows of type 1. */
#define VERBENA_FEATURE_SET_MW_TYPE1 UINT64_C(0x40)
/* Memory windows of type 2. */
#define VERBENA_FEATURE_SET_MW_TYPE2 UINT64_C(0x80)
/* LOCAL_INV and SEND_WITH_INV. */
#define VERBENA_FEATURE_SET_INVALIDATE UINT64_C(0x100)
/* Multicast groups. */
#define VERBENA_FEATURE_SET_MULTICAST UINT64_C(0x200)
/* Inline data. */
#define VERBENA_FEATURE_SET_INLINE UINT64_C(0x400)
/* Push window. */
#define VERBENA_FEATURE_SET_PUSH UINT64_C(0x800)
/* Memory registrations of one DMA range. */
#define VERBENA_FEATURE_SET_DIRECT_MR UINT64_C(0x1000)
/* Memory registrations by page list. */
#define VERBENA_FEATURE_SET_PAGE_LIST_MR UINT64_C(0x2000)
/* RESIZE_CQ. */
#define VERBENA_FEATURE_SET_RESIZE_CQ UINT64_C(0x4000)
/* Checksums of frames: filled in, and checked (RAW_ETH, WQ). */
#define VERBENA_FEATURE_SET_CHECKSUM UINT64_C(0x8000)
/* VLAN insertion and removal. */
#define VERBENA_FEATURE_SET_VLAN UINT64_C(0x10000)
/* RoCE v2 over IPv4. */
#define VERBENA_FEATURE_SET_IPV4 UINT64_C(0x20000)
/* RoCE v2 over IPv6. */
#define VERBENA_FEATURE_SET_IPV6 UINT64_C(0x40000)
/* Timestamps in the CQEs of CQs that ask for them. */
#define VERBENA_FEATURE_SET_TIMESTAMP UINT64_C(0x80000)
/* Several event queues with a vector each. */
#define VERBENA_FEATURE_SET_EVENT_VECTORS UINT64_C(0x100000)
/* Congestion notification (ECN, CNP). */
#define VERBENA_FEATURE_SET_CONGESTION UINT64_C(0x200000)
/* Pause frames: SET_PORT of `rx_pause` and `tx_pause`. */
#define VERBENA_FEATURE_SET_PAUSE UINT64_C(0x400000)
/* QUERY_MW. */
#define VERBENA_FEATURE_SET_QUERY_MW UINT64_C(0x800000)
/* SET_PORT. */
#define VERBENA_FEATURE_SET_SET_PORT UINT64_C(0x1000000)
/* Memory registrations of no memory. */
#define VERBENA_FEATURE_SET_NULL_MR UINT64_C(0x2000000)
/* MODIFY_MR. */
#define VERBENA_FEATURE_SET_MODIFY_MR UINT64_C(0x4000000)
/* Moderation of the events of a completion queue. */
#define VERBENA_FEATURE_SET_MODERATION UINT64_C(0x8000000)
/* Memory registrations that find their memory when it is accessed. */
#define VERBENA_FEATURE_SET_ON_DEMAND UINT64_C(0x10000000)
/* Memory of the card's own, of MEMORY bytes. */
#define VERBENA_FEATURE_SET_ON_CARD_MEMORY UINT64_C(0x20000000)
/* Extended reliable connections. */
#define VERBENA_FEATURE_SET_XRC UINT64_C(0x40000000)
/* Flow rules: CREATE_FLOW and DESTROY_FLOW. */
#define VERBENA_FEATURE_SET_FLOW UINT64_C(0x80000000)
/* Receive work queues, indirection tables, RX-hash QPs: CREATE_TABLE, MODIFY_TABLE, DESTROY_TABLE and QUERY_ETHERNET. */
#define VERBENA_FEATURE_SET_RSS UINT64_C(0x100000000)
/* Flow rules that drop frames, and that ask for VLAN tags: `drop` and `tags` of FlowContext. */
#define VERBENA_FEATURE_SET_FLOW_DROP UINT64_C(0x200000000)
/* MODIFY_QP changes whether a receive work queue strips VLAN tags. */
#define VERBENA_FEATURE_SET_STRIP_VLAN UINT64_C(0x400000000)
/* RAW_TSO: the card cuts bytes of TCP into frames. */
#define VERBENA_FEATURE_SET_TSO UINT64_C(0x800000000)
/* Received frames with their check sequence (RAW_ETH, WQ). */
#define VERBENA_FEATURE_SET_SCATTER_FCS UINT64_C(0x1000000000)
/* Completions of frames say what kind they are: `frame_kind` of Cqe. */
#define VERBENA_FEATURE_SET_FRAME_KIND UINT64_C(0x2000000000)
/* Flow rules that mark frames: `marked` and `mark` of FlowContext and Cqe. */
#define VERBENA_FEATURE_SET_FLOW_MARK UINT64_C(0x4000000000)
/* Flow rules that count frames: `counted` of FlowContext, and QUERY_FLOW. */
#define VERBENA_FEATURE_SET_FLOW_COUNT UINT64_C(0x8000000000)
/* The ports can be one: SET_LAG and QUERY_LAG. The card has one port then, the first, and answers QUERY_CARD so. */
#define VERBENA_FEATURE_SET_LAG UINT64_C(0x10000000000)
/* Flow rules that go by a table of VLANs: `by_vlan` of FlowContext, and SET_VLAN. */
#define VERBENA_FEATURE_SET_VLAN_FILTER UINT64_C(0x20000000000)
/* Packet pacing: MODIFY_QP of RATE_LIMIT (RAW_ETH). */
#define VERBENA_FEATURE_SET_PACING UINT64_C(0x40000000000)
/* Ports can be disabled: SET_PORT of `enabled`. */
#define VERBENA_FEATURE_SET_PORT_ENABLE UINT64_C(0x80000000000)

/* Code in ERROR_CAUSE and in the event DEVICE_FATAL. */
enum verbena_error_cause {
    VERBENA_ERROR_CAUSE_NONE = 0x0, /* The card is well. */
    VERBENA_ERROR_CAUSE_DMA_READ = 0x1, /* A DMA read was refused or timed out. */
    VERBENA_ERROR_CAUSE_DMA_WRITE = 0x2, /* A DMA write was refused. */
    VERBENA_ERROR_CAUSE_ADMIN_RING = 0x10, /* A base address is not aligned, or a ring's size is not allowed. */
    VERBENA_ERROR_CAUSE_ADMIN_DOORBELL = 0x11, /* The doorbell names an index outside the ring. */
    VERBENA_ERROR_CAUSE_ADMIN_OVERRUN = 0x12, /* The reply ring is full: software does not consume. */
    VERBENA_ERROR_CAUSE_EQ_OVERRUN = 0x20, /* An event queue is full: software does not consume. */
    VERBENA_ERROR_CAUSE_CONTEXT = 0x30, /* A context in the card's memory does not make sense. */
    VERBENA_ERROR_CAUSE_MEMORY = 0x31, /* The card's memory has an error that cannot be corrected. */
    VERBENA_ERROR_CAUSE_TABLE = 0x32, /* A table of the card is used up where that must not be. */
    VERBENA_ERROR_CAUSE_WATCHDOG = 0x40, /* The card's own watchdog ran out. */
    VERBENA_ERROR_CAUSE_TEMPERATURE = 0x41, /* Too hot. */
    VERBENA_ERROR_CAUSE_RESET = 0x42, /* A reset did not finish. */
    VERBENA_ERROR_CAUSE_INJECTED = 0x50, /* Software asked for an error to test itself. */
    VERBENA_ERROR_CAUSE_INTERNAL = 0xff, /* Anything else. */
};

/* State of a port; the numbers are those of `ibv_port_state`. */
enum verbena_link_state {
    VERBENA_LINK_STATE_DOWN = 0x1, /* No link. */
    VERBENA_LINK_STATE_INIT = 0x2, /* Link, not configured. */
    VERBENA_LINK_STATE_ARMED = 0x3, /* Configured, no traffic yet. */
    VERBENA_LINK_STATE_ACTIVE = 0x4, /* The link is up. */
};

/* State of the cable; the numbers are those of IB PortInfo. */
enum verbena_phys_state {
    VERBENA_PHYS_STATE_SLEEP = 0x1, /* Asleep. */
    VERBENA_PHYS_STATE_POLLING = 0x2, /* Waits for a link partner. */
    VERBENA_PHYS_STATE_DISABLED = 0x3, /* Switched off. */
    VERBENA_PHYS_STATE_TRAINING = 0x4, /* Adapts to the cable. */
    VERBENA_PHYS_STATE_LINK_UP = 0x5, /* Up. */
    VERBENA_PHYS_STATE_RECOVERY = 0x6, /* Recovers from an error. */
};

/* What SET_PORT changes (`param0`). */
/* `enabled` (PORT_ENABLE). */
#define VERBENA_PORT_ATTR_MASK_ENABLED UINT32_C(0x1)
/* `mtu_active`. */
#define VERBENA_PORT_ATTR_MASK_MTU UINT32_C(0x2)
/* The GID at `gid_index`. */
#define VERBENA_PORT_ATTR_MASK_GID UINT32_C(0x4)
/* `rx_pause` and `tx_pause` (PAUSE). */
#define VERBENA_PORT_ATTR_MASK_PAUSE UINT32_C(0x8)

/* Which XRC domain OPEN_XRCD gives; with neither, the one that has the key has to exist. */
/* A new one if none has the key. */
#define VERBENA_XRCD_FLAGS_CREATE UINT32_C(0x1)
/* Only a new one. */
#define VERBENA_XRCD_FLAGS_EXCLUSIVE UINT32_C(0x2)

/* What MODIFY_MR changes (`param0`); the numbers of `ibv_rereg_mr_flags`. */
/* Where the memory is: all fields that no other bit names. */
#define VERBENA_MR_ATTR_MASK_TRANSLATION UINT32_C(0x1)
/* `pd`. */
#define VERBENA_MR_ATTR_MASK_PD UINT32_C(0x2)
/* `access`. */
#define VERBENA_MR_ATTR_MASK_ACCESS UINT32_C(0x4)

/* Which attributes MODIFY_QP changes; the numbers of `ibv_qp_attr_mask`. */
/* `state`, in `param1`. */
#define VERBENA_QP_ATTR_MASK_STATE UINT32_C(0x1)
/* The state that the QP must be in, in `param2`. */
#define VERBENA_QP_ATTR_MASK_CUR_STATE UINT32_C(0x2)
/* Event when the send queue has drained. */
#define VERBENA_QP_ATTR_MASK_EN_SQD_ASYNC_NOTIFY UINT32_C(0x4)
/* `access`. */
#define VERBENA_QP_ATTR_MASK_ACCESS_FLAGS UINT32_C(0x8)
/* `pkey_index`. */
#define VERBENA_QP_ATTR_MASK_PKEY_INDEX UINT32_C(0x10)
/* `port`. */
#define VERBENA_QP_ATTR_MASK_PORT UINT32_C(0x20)
/* `qkey`. */
#define VERBENA_QP_ATTR_MASK_QKEY UINT32_C(0x40)
/* The address vector. */
#define VERBENA_QP_ATTR_MASK_AV UINT32_C(0x80)
/* `mtu`. */
#define VERBENA_QP_ATTR_MASK_PATH_MTU UINT32_C(0x100)
/* `timeout`. */
#define VERBENA_QP_ATTR_MASK_TIMEOUT UINT32_C(0x200)
/* `retry_cnt`. */
#define VERBENA_QP_ATTR_MASK_RETRY_CNT UINT32_C(0x400)
/* `rnr_retry`. */
#define VERBENA_QP_ATTR_MASK_RNR_RETRY UINT32_C(0x800)
/* `rq_psn`. */
#define VERBENA_QP_ATTR_MASK_RQ_PSN UINT32_C(0x1000)
/* `max_rd_atomic`. */
#define VERBENA_QP_ATTR_MASK_MAX_QP_RD_ATOMIC UINT32_C(0x2000)
/* Alternate path: not supported. */
#define VERBENA_QP_ATTR_MASK_ALT_PATH UINT32_C(0x4000)
/* `min_rnr_timer`. */
#define VERBENA_QP_ATTR_MASK_MIN_RNR_TIMER UINT32_C(0x8000)
/* `sq_psn`. */
#define VERBENA_QP_ATTR_MASK_SQ_PSN UINT32_C(0x10000)
/* `max_dest_rd_atomic`. */
#define VERBENA_QP_ATTR_MASK_MAX_DEST_RD_ATOMIC UINT32_C(0x20000)
/* Path migration: not supported. */
#define VERBENA_QP_ATTR_MASK_PATH_MIG_STATE UINT32_C(0x40000)
/* Resizing the queues: not supported. */
#define VERBENA_QP_ATTR_MASK_CAP UINT32_C(0x80000)
/* `dest_qpn`. */
#define VERBENA_QP_ATTR_MASK_DEST_QPN UINT32_C(0x100000)
/* `rate_limit`, `max_burst` and `typical_packet` (PACING). */
#define VERBENA_QP_ATTR_MASK_RATE_LIMIT UINT32_C(0x2000000)
/* `strip_vlan` of a receive work queue, alone: from the next frame on. Not one of verbs. */
#define VERBENA_QP_ATTR_MASK_STRIP_VLAN UINT32_C(0x80000000)

/* Path MTU; the numbers are those of `ibv_mtu`. */
enum verbena_mtu {
    VERBENA_MTU_MTU_256 = 0x1, /* 256 bytes. */
    VERBENA_MTU_MTU_512 = 0x2, /* 512 bytes. */
    VERBENA_MTU_MTU_1024 = 0x3, /* 1024 bytes. */
    VERBENA_MTU_MTU_2048 = 0x4, /* 2048 bytes. */
    VERBENA_MTU_MTU_4096 = 0x5, /* 4096 bytes. */
};


/* ---- Queue entries, commands and contexts in memory ---- */

/* Control segment: the first 16 bytes of every send WQE. */
struct verbena_wqe_ctrl {
    /* What to do. Values: WqeOpcode. */
    uint8_t opcode;
    /* Size of the WQE in units of 16 bytes, this segment included. */
    uint8_t ds;
    /* signaled: Make a CQE also when the request succeeds. */
    /* solicited: Set the solicited event bit of the last packet. */
    /* fence: Wait for all earlier READs and atomics of the queue. */
    /* inline: The data is in the WQE itself. */
    /* ip_csum: Fill in the IPv4 header checksum (RAW_ETH). */
    /* l4_csum: Fill in the TCP or UDP checksum (RAW_ETH). */
    /* vlan_insert: Insert an 802.1Q tag with `vlan_tci` (RAW_ETH, RAW_TSO). */
    uint8_t flags;
    /* Number of SGEs; 0 with inline data. */
    uint8_t num_sge;
    /* Block index of this WQE, modulo 65536. */
    uint16_t index;
    /* Tag control information of the VLAN tag to insert. */
    uint16_t vlan_tci;
    /* Bytes of the message; of a RAW_TSO without the headers. */
    uint32_t length;
    /* Immediate data (sent in the order of these bytes), or the key to invalidate, or the window's new R_Key. */
    uint32_t imm;
};
#define VERBENA_WQE_CTRL_SIGNALED_MASK UINT32_C(0x1)
#define VERBENA_WQE_CTRL_SIGNALED_SHIFT 0
#define VERBENA_WQE_CTRL_SOLICITED_MASK UINT32_C(0x2)
#define VERBENA_WQE_CTRL_SOLICITED_SHIFT 1
#define VERBENA_WQE_CTRL_FENCE_MASK UINT32_C(0x4)
#define VERBENA_WQE_CTRL_FENCE_SHIFT 2
#define VERBENA_WQE_CTRL_INLINE_MASK UINT32_C(0x8)
#define VERBENA_WQE_CTRL_INLINE_SHIFT 3
#define VERBENA_WQE_CTRL_IP_CSUM_MASK UINT32_C(0x10)
#define VERBENA_WQE_CTRL_IP_CSUM_SHIFT 4
#define VERBENA_WQE_CTRL_L4_CSUM_MASK UINT32_C(0x20)
#define VERBENA_WQE_CTRL_L4_CSUM_SHIFT 5
#define VERBENA_WQE_CTRL_VLAN_INSERT_MASK UINT32_C(0x40)
#define VERBENA_WQE_CTRL_VLAN_INSERT_SHIFT 6
VERBENA_ASSERT(sizeof(struct verbena_wqe_ctrl) == 16);
VERBENA_ASSERT(offsetof(struct verbena_wqe_ctrl, opcode) == 0);
VERBENA_ASSERT(offsetof(struct verbena_wqe_ctrl, ds) == 1);
VERBENA_ASSERT(offsetof(struct verbena_wqe_ctrl, flags) == 2);
VERBENA_ASSERT(offsetof(struct verbena_wqe_ctrl, num_sge) == 3);
VERBENA_ASSERT(offsetof(struct verbena_wqe_ctrl, index) == 4);
VERBENA_ASSERT(offsetof(struct verbena_wqe_ctrl, vlan_tci) == 6);
VERBENA_ASSERT(offsetof(struct verbena_wqe_ctrl, length) == 8);
VERBENA_ASSERT(offsetof(struct verbena_wqe_ctrl, imm) == 12);

/* Remote segment: where READ, WRITE and atomics go, and on XRC everything. */
struct verbena_wqe_remote {
    /* Address at the peer. */
    uint64_t remote_addr;
    /* The peer's key. */
    uint32_t rkey;
    /* srqn: The peer's SRQ (XRC). */
    uint32_t srqn;
};
#define VERBENA_WQE_REMOTE_SRQN_MASK UINT32_C(0xffffff)
#define VERBENA_WQE_REMOTE_SRQN_SHIFT 0
VERBENA_ASSERT(sizeof(struct verbena_wqe_remote) == 16);
VERBENA_ASSERT(offsetof(struct verbena_wqe_remote, remote_addr) == 0);
VERBENA_ASSERT(offsetof(struct verbena_wqe_remote, rkey) == 8);
VERBENA_ASSERT(offsetof(struct verbena_wqe_remote, srqn) == 12);

/* Atomic segment: the operands. */
struct verbena_wqe_atomic {
    /* What to compare with (CMP_SWAP) or to add (FETCH_ADD). */
    uint64_t compare_add;
    /* What to store where the comparison holds. */
    uint64_t swap;
};
VERBENA_ASSERT(sizeof(struct verbena_wqe_atomic) == 16);
VERBENA_ASSERT(offsetof(struct verbena_wqe_atomic, compare_add) == 0);
VERBENA_ASSERT(offsetof(struct verbena_wqe_atomic, swap) == 8);

/* Address segment: the address vector of a UD message. */
struct verbena_wqe_address {
    /* Destination GID. The first byte of the wire is the lowest. */
    uint8_t dgid[16];
    /* Destination Ethernet address. The first byte of the wire is the lowest. */
    uint8_t dmac[6];
    /* Index of the source GID. */
    uint8_t sgid_index;
    /* Port, counted from 1. */
    uint8_t port;
    /* Destination QP. */
    uint32_t dest_qpn;
    /* Q_Key to send; with the top bit set the QP's own is sent. */
    uint32_t qkey;
    /* Flow label. */
    uint32_t flow_label;
    /* Traffic class. */
    uint8_t traffic_class;
    /* Hop limit. */
    uint8_t hop_limit;
    /* UDP source port; 0 lets the card choose. */
    uint16_t udp_sport;
    /* VLAN tag control information. */
    uint16_t vlan;
    /* vlan_present: `vlan` is to be used, instead of the VLAN of the source GID with `sl`. */
    uint8_t vlan_present;
    /* Static rate; 0 is the port's speed. */
    uint8_t static_rate;
    /* Service level, 0 to 7: the priority in the VLAN of the source GID. */
    uint8_t sl;
    uint8_t reserved_45[3];
};
#define VERBENA_WQE_ADDRESS_VLAN_PRESENT_MASK UINT32_C(0x1)
#define VERBENA_WQE_ADDRESS_VLAN_PRESENT_SHIFT 0
VERBENA_ASSERT(sizeof(struct verbena_wqe_address) == 48);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, dgid) == 0);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, dmac) == 16);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, sgid_index) == 22);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, port) == 23);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, dest_qpn) == 24);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, qkey) == 28);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, flow_label) == 32);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, traffic_class) == 36);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, hop_limit) == 37);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, udp_sport) == 38);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, vlan) == 40);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, vlan_present) == 42);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, static_rate) == 43);
VERBENA_ASSERT(offsetof(struct verbena_wqe_address, sl) == 44);

/* Scatter/gather entry: one piece of local memory (send and receive). */
struct verbena_wqe_sge {
    /* Address, in the addresses of the MR. */
    uint64_t addr;
    /* Bytes. */
    uint32_t length;
    /* Key of the MR. */
    uint32_t lkey;
};
VERBENA_ASSERT(sizeof(struct verbena_wqe_sge) == 16);
VERBENA_ASSERT(offsetof(struct verbena_wqe_sge, addr) == 0);
VERBENA_ASSERT(offsetof(struct verbena_wqe_sge, length) == 8);
VERBENA_ASSERT(offsetof(struct verbena_wqe_sge, lkey) == 12);

/* Bind segment of BIND_MW; the new R_Key is in the control segment. */
struct verbena_wqe_bind {
    /* First address of the window, in the addresses of the MR. */
    uint64_t addr;
    /* Bytes of the window; 0 unbinds. */
    uint64_t length;
    /* Key of the MR. */
    uint32_t mr_lkey;
    /* The window's R_Key so far. */
    uint32_t mw_rkey;
    /* Access rights of the window. Values: Access. */
    uint8_t access;
    uint8_t reserved_25[7];
};
VERBENA_ASSERT(sizeof(struct verbena_wqe_bind) == 32);
VERBENA_ASSERT(offsetof(struct verbena_wqe_bind, addr) == 0);
VERBENA_ASSERT(offsetof(struct verbena_wqe_bind, length) == 8);
VERBENA_ASSERT(offsetof(struct verbena_wqe_bind, mr_lkey) == 16);
VERBENA_ASSERT(offsetof(struct verbena_wqe_bind, mw_rkey) == 20);
VERBENA_ASSERT(offsetof(struct verbena_wqe_bind, access) == 24);

/* Segmentation segment of RAW_TSO: what the frames begin with. The headers are those of Ethernet with at most two VLAN tags, of IPv4 that is no fragment or of IPv6 with no extension headers but options, and of TCP. In each frame the card sets the lengths and checksums of IP and TCP, adds the data before it to the sequence number, and its place among the frames to the identification of IPv4. Only the first frame has the flag CWR, and only the last FIN and PSH. */
struct verbena_wqe_tso {
    /* Most bytes of data in a frame, at least 1. */
    uint16_t mss;
    /* Bytes of the headers. */
    uint16_t header_length;
    uint8_t reserved_4[12];
    /* Bytes 0 to 7 of the headers, the first in the lowest byte. */
    uint64_t header0;
    /* Bytes 8 to 15. */
    uint64_t header1;
    /* Bytes 16 to 23. */
    uint64_t header2;
    /* Bytes 24 to 31. */
    uint64_t header3;
    /* Bytes 32 to 39. */
    uint64_t header4;
    /* Bytes 40 to 47. */
    uint64_t header5;
    /* Bytes 48 to 55. */
    uint64_t header6;
    /* Bytes 56 to 63. */
    uint64_t header7;
    /* Bytes 64 to 71. */
    uint64_t header8;
    /* Bytes 72 to 79. */
    uint64_t header9;
    /* Bytes 80 to 87. */
    uint64_t header10;
    /* Bytes 88 to 95. */
    uint64_t header11;
    /* Bytes 96 to 103. */
    uint64_t header12;
    /* Bytes 104 to 111. */
    uint64_t header13;
    /* Bytes 112 to 119. */
    uint64_t header14;
    /* Bytes 120 to 127. */
    uint64_t header15;
};
VERBENA_ASSERT(sizeof(struct verbena_wqe_tso) == 144);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, mss) == 0);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header_length) == 2);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header0) == 16);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header1) == 24);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header2) == 32);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header3) == 40);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header4) == 48);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header5) == 56);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header6) == 64);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header7) == 72);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header8) == 80);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header9) == 88);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header10) == 96);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header11) == 104);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header12) == 112);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header13) == 120);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header14) == 128);
VERBENA_ASSERT(offsetof(struct verbena_wqe_tso, header15) == 136);

/* Head of a receive WQE; `RecvHead::num_sge` entries `WqeSge` follow. */
struct verbena_recv_head {
    /* Number of SGEs. */
    uint8_t num_sge;
    uint8_t reserved_1[1];
    /* Next slot of the SRQ's list (SRQ only). */
    uint16_t next;
    /* Running index of this WQE, or its slot in an SRQ. */
    uint32_t index;
    /* Bytes of all SGEs. */
    uint32_t length;
    uint8_t reserved_12[4];
};
VERBENA_ASSERT(sizeof(struct verbena_recv_head) == 16);
VERBENA_ASSERT(offsetof(struct verbena_recv_head, num_sge) == 0);
VERBENA_ASSERT(offsetof(struct verbena_recv_head, next) == 2);
VERBENA_ASSERT(offsetof(struct verbena_recv_head, index) == 4);
VERBENA_ASSERT(offsetof(struct verbena_recv_head, length) == 8);

/* Completion queue entry. The card writes the phase bit last. */
struct verbena_cqe {
    /* Send side: running index of the first block of the last WQE that completed. Receive side: running index of the WQE, or its slot in an SRQ. */
    uint32_t wqe_index;
    /* qpn: The QP. */
    uint32_t qpn;
    /* srcqp: The peer's QP (UD, XRC). */
    uint32_t srcqp;
    /* Bytes received, or read. */
    uint32_t byte_len;
    /* Immediate data in the order of the wire, or the key that the peer invalidated, or the frame's hash (RX-hash QP). */
    uint32_t imm;
    /* grh: The first 40 bytes of the buffer hold a GRH. */
    /* has_imm: `imm` holds immediate data. */
    /* inv: `imm` holds an invalidated key. */
    /* recv: The receive side completed. */
    /* ip_csum_ok: The frame is of IPv4, and the checksum of that header is right (raw packet QP, WQ). */
    /* vlan: `vlan_tci` holds the frame's tag. */
    /* l4_csum_ok: The frame is of TCP or UDP, and its checksum is right (raw packet QP, WQ). */
    /* hashed: `imm` holds the frame's hash. */
    uint8_t flags;
    /* What completed. Values: CqeOpcode. */
    uint8_t opcode;
    /* How it ended. Values: CqeStatus. */
    uint8_t status;
    /* Why: the card's vendor syndrome. Values: Syndrome. */
    uint8_t syndrome;
    /* The card's time in nanoseconds, where the CQ was created `stamped`. */
    uint64_t timestamp;
    /* Receives of UD: the priority of the packet's 802.1Q tag; without one the kind of packet, 9 for UDP over IPv6 and 10 for UDP over IPv4 (bit 3: with a UDP header; bits 0 to 2: 1 IPv6, 2 IPv4), 0 for RoCE version 1. */
    uint8_t sl;
    /* Kind of the frame (raw packet QP, WQ). Values: FrameKind. */
    uint8_t frame_kind;
    /* Index of the P_Key. */
    uint16_t pkey_index;
    /* VLAN tag that was removed. */
    uint16_t vlan_tci;
    /* marked: `mark` holds the mark of the flow rule by which the frame came. */
    uint8_t marked;
    uint8_t reserved_39[1];
    /* Counts the uses of the QP number, so that a CQE of an earlier QP is recognised. */
    uint32_t generation;
    /* srqn: Receives of XRC: the SRQ that `wqe_index` is a slot of; 0 for all others. */
    uint32_t srqn;
    /* Mark of a flow rule. */
    uint32_t mark;
    uint8_t reserved_52[11];
    /* phase: 1 on the first lap of the ring, then it toggles with each lap. */
    uint8_t phase;
};
#define VERBENA_CQE_QPN_MASK UINT32_C(0xffffff)
#define VERBENA_CQE_QPN_SHIFT 0
#define VERBENA_CQE_SRCQP_MASK UINT32_C(0xffffff)
#define VERBENA_CQE_SRCQP_SHIFT 0
#define VERBENA_CQE_GRH_MASK UINT32_C(0x1)
#define VERBENA_CQE_GRH_SHIFT 0
#define VERBENA_CQE_HAS_IMM_MASK UINT32_C(0x2)
#define VERBENA_CQE_HAS_IMM_SHIFT 1
#define VERBENA_CQE_INV_MASK UINT32_C(0x4)
#define VERBENA_CQE_INV_SHIFT 2
#define VERBENA_CQE_RECV_MASK UINT32_C(0x8)
#define VERBENA_CQE_RECV_SHIFT 3
#define VERBENA_CQE_IP_CSUM_OK_MASK UINT32_C(0x10)
#define VERBENA_CQE_IP_CSUM_OK_SHIFT 4
#define VERBENA_CQE_VLAN_MASK UINT32_C(0x20)
#define VERBENA_CQE_VLAN_SHIFT 5
#define VERBENA_CQE_L4_CSUM_OK_MASK UINT32_C(0x40)
#define VERBENA_CQE_L4_CSUM_OK_SHIFT 6
#define VERBENA_CQE_HASHED_MASK UINT32_C(0x80)
#define VERBENA_CQE_HASHED_SHIFT 7
#define VERBENA_CQE_MARKED_MASK UINT32_C(0x1)
#define VERBENA_CQE_MARKED_SHIFT 0
#define VERBENA_CQE_SRQN_MASK UINT32_C(0xffffff)
#define VERBENA_CQE_SRQN_SHIFT 0
#define VERBENA_CQE_PHASE_MASK UINT32_C(0x1)
#define VERBENA_CQE_PHASE_SHIFT 0
VERBENA_ASSERT(sizeof(struct verbena_cqe) == 64);
VERBENA_ASSERT(offsetof(struct verbena_cqe, wqe_index) == 0);
VERBENA_ASSERT(offsetof(struct verbena_cqe, qpn) == 4);
VERBENA_ASSERT(offsetof(struct verbena_cqe, srcqp) == 8);
VERBENA_ASSERT(offsetof(struct verbena_cqe, byte_len) == 12);
VERBENA_ASSERT(offsetof(struct verbena_cqe, imm) == 16);
VERBENA_ASSERT(offsetof(struct verbena_cqe, flags) == 20);
VERBENA_ASSERT(offsetof(struct verbena_cqe, opcode) == 21);
VERBENA_ASSERT(offsetof(struct verbena_cqe, status) == 22);
VERBENA_ASSERT(offsetof(struct verbena_cqe, syndrome) == 23);
VERBENA_ASSERT(offsetof(struct verbena_cqe, timestamp) == 24);
VERBENA_ASSERT(offsetof(struct verbena_cqe, sl) == 32);
VERBENA_ASSERT(offsetof(struct verbena_cqe, frame_kind) == 33);
VERBENA_ASSERT(offsetof(struct verbena_cqe, pkey_index) == 34);
VERBENA_ASSERT(offsetof(struct verbena_cqe, vlan_tci) == 36);
VERBENA_ASSERT(offsetof(struct verbena_cqe, marked) == 38);
VERBENA_ASSERT(offsetof(struct verbena_cqe, generation) == 40);
VERBENA_ASSERT(offsetof(struct verbena_cqe, srqn) == 44);
VERBENA_ASSERT(offsetof(struct verbena_cqe, mark) == 48);
VERBENA_ASSERT(offsetof(struct verbena_cqe, phase) == 63);

/* Event queue entry. The card writes the phase bit last. */
struct verbena_eqe {
    /* What happened. Values: EventKind. */
    uint8_t kind;
    /* Port, counted from 1; 0 where no port is meant. */
    uint8_t port;
    uint8_t reserved_2[2];
    /* CQN, QPN or SRQN. */
    uint32_t object;
    /* The card's time in nanoseconds. */
    uint64_t timestamp;
    /* More, by kind. */
    uint32_t data;
    uint8_t reserved_20[11];
    /* phase: 1 on the first lap of the ring, then it toggles with each lap. */
    uint8_t phase;
};
#define VERBENA_EQE_PHASE_MASK UINT32_C(0x1)
#define VERBENA_EQE_PHASE_SHIFT 0
VERBENA_ASSERT(sizeof(struct verbena_eqe) == 32);
VERBENA_ASSERT(offsetof(struct verbena_eqe, kind) == 0);
VERBENA_ASSERT(offsetof(struct verbena_eqe, port) == 1);
VERBENA_ASSERT(offsetof(struct verbena_eqe, object) == 4);
VERBENA_ASSERT(offsetof(struct verbena_eqe, timestamp) == 8);
VERBENA_ASSERT(offsetof(struct verbena_eqe, data) == 16);
VERBENA_ASSERT(offsetof(struct verbena_eqe, phase) == 31);

/* Entry of the admin command ring. */
struct verbena_command {
    /* What to do. Values: AdminOpcode. */
    uint16_t opcode;
    /* Returned in the reply. */
    uint16_t tag;
    /* Number of the object. */
    uint32_t object;
    /* DMA address of the context to read. */
    uint64_t in_iova;
    /* Bytes to read. */
    uint32_t in_len;
    /* Bytes that may be written. */
    uint32_t out_len;
    /* DMA address to which the card writes. */
    uint64_t out_iova;
    /* First parameter, by opcode. */
    uint64_t param0;
    /* Second parameter, by opcode. */
    uint64_t param1;
    /* Third parameter, by opcode. */
    uint64_t param2;
    /* Fourth parameter, by opcode. */
    uint64_t param3;
};
VERBENA_ASSERT(sizeof(struct verbena_command) == 64);
VERBENA_ASSERT(offsetof(struct verbena_command, opcode) == 0);
VERBENA_ASSERT(offsetof(struct verbena_command, tag) == 2);
VERBENA_ASSERT(offsetof(struct verbena_command, object) == 4);
VERBENA_ASSERT(offsetof(struct verbena_command, in_iova) == 8);
VERBENA_ASSERT(offsetof(struct verbena_command, in_len) == 16);
VERBENA_ASSERT(offsetof(struct verbena_command, out_len) == 20);
VERBENA_ASSERT(offsetof(struct verbena_command, out_iova) == 24);
VERBENA_ASSERT(offsetof(struct verbena_command, param0) == 32);
VERBENA_ASSERT(offsetof(struct verbena_command, param1) == 40);
VERBENA_ASSERT(offsetof(struct verbena_command, param2) == 48);
VERBENA_ASSERT(offsetof(struct verbena_command, param3) == 56);

/* Entry of the admin reply ring. The card writes the phase bit last. */
struct verbena_reply {
    /* The command's tag. */
    uint16_t tag;
    /* How it ended. Values: AdminStatus. */
    uint8_t status;
    /* Why: the card's vendor syndrome. Values: Syndrome. */
    uint8_t syndrome;
    /* Number of the object. */
    uint32_t object;
    /* First value, by opcode. */
    uint64_t value0;
    /* Second value, by opcode. */
    uint64_t value1;
    uint8_t reserved_24[7];
    /* phase: 1 on the first lap of the ring, then it toggles with each lap. */
    uint8_t phase;
};
#define VERBENA_REPLY_PHASE_MASK UINT32_C(0x1)
#define VERBENA_REPLY_PHASE_SHIFT 0
VERBENA_ASSERT(sizeof(struct verbena_reply) == 32);
VERBENA_ASSERT(offsetof(struct verbena_reply, tag) == 0);
VERBENA_ASSERT(offsetof(struct verbena_reply, status) == 2);
VERBENA_ASSERT(offsetof(struct verbena_reply, syndrome) == 3);
VERBENA_ASSERT(offsetof(struct verbena_reply, object) == 4);
VERBENA_ASSERT(offsetof(struct verbena_reply, value0) == 8);
VERBENA_ASSERT(offsetof(struct verbena_reply, value1) == 16);
VERBENA_ASSERT(offsetof(struct verbena_reply, phase) == 31);

/* Context of a queue pair: CREATE_QP, MODIFY_QP, QUERY_QP. */
struct verbena_qp_context {
    /* State. Values: QpState. */
    uint8_t state;
    /* Transport. Values: QpType. */
    uint8_t qp_type;
    /* Port, counted from 1. */
    uint8_t port;
    /* Path MTU as `ibv_mtu` (`Mtu`). */
    uint8_t mtu;
    /* Protection domain. */
    uint32_t pd;
    /* Send CQ. */
    uint32_t send_cq;
    /* Receive CQ. */
    uint32_t recv_cq;
    /* Shared receive queue, with `has_srq`. */
    uint32_t srq;
    /* has_srq: Receives come from `srq`. */
    /* sq_sig_all: Every send WQE makes a CQE. */
    uint8_t flags_20;
    uint8_t reserved_21[1];
    /* Doorbell page. */
    uint16_t page;
    /* DMA address of the send ring. */
    uint64_t sq_iova;
    /* DMA address of the receive ring. */
    uint64_t rq_iova;
    /* Log2 of the send ring's blocks. */
    uint8_t sq_log;
    /* Log2 of the receive ring's entries. */
    uint8_t rq_log;
    /* Log2 of the bytes of a receive WQE. */
    uint8_t rq_stride_log;
    /* What a peer may do (`Access`). Values: Access. */
    uint8_t access;
    /* Index of the P_Key. */
    uint16_t pkey_index;
    /* Retries after a time-out or a sequence error, 0 to 7. */
    uint8_t retry_cnt;
    /* Retries after receiver-not-ready, 0 to 7; 7 is for ever. */
    uint8_t rnr_retry;
    /* Time-out of 4.096 us * 2^n; 0 is never. */
    uint8_t timeout;
    /* Code of the time that a peer waits after receiver-not-ready. */
    uint8_t min_rnr_timer;
    /* READs and atomics that this side may have outstanding. */
    uint8_t max_rd_atomic;
    /* READs and atomics that the peer may have outstanding. */
    uint8_t max_dest_rd_atomic;
    /* The peer's QP. */
    uint32_t dest_qpn;
    /* Q_Key (UD). */
    uint32_t qkey;
    /* First PSN to send. */
    uint32_t sq_psn;
    /* First PSN to receive. */
    uint32_t rq_psn;
    /* Index of the source GID. */
    uint8_t sgid_index;
    /* Hop limit. */
    uint8_t hop_limit;
    /* Traffic class. */
    uint8_t traffic_class;
    /* Service level: the priority in the VLAN of the source GID. */
    uint8_t sl;
    /* Flow label. */
    uint32_t flow_label;
    /* Destination GID. The first byte of the wire is the lowest. */
    uint8_t dgid[16];
    /* Destination Ethernet address. The first byte of the wire is the lowest. */
    uint8_t dmac[6];
    /* UDP source port; 0 lets the card choose. */
    uint16_t udp_sport;
    /* Most bytes of inline data. */
    uint32_t max_inline;
    /* Most SGEs of a send WQE. */
    uint8_t max_send_sge;
    /* Most SGEs of a receive WQE. */
    uint8_t max_recv_sge;
    /* sq_draining: The send queue is draining (SQD). */
    /* strip_vlan: The 802.1Q tag of a received frame goes into its CQE (RAW_PACKET, WQ). */
    /* scatter_fcs: A received frame has its check sequence behind it, as on the wire (RAW_PACKET, WQ). */
    uint8_t flags_106;
    uint8_t reserved_107[1];
    /* Its number. */
    uint32_t qpn;
    /* XRC domain (XRC_RECV). */
    uint32_t xrcd;
    /* Indirection table (RX_HASH). */
    uint32_t table_number;
    /* Fields that are hashed (RX_HASH). Values: HashFields. */
    uint32_t hash_fields;
    /* How they are hashed (RX_HASH). Values: HashFunction. */
    uint8_t hash_function;
    uint8_t reserved_125[3];
    /* Bytes 0 to 7 of the hash key, the first in the lowest byte (RX_HASH). */
    uint64_t hash_key0;
    /* Bytes 8 to 15. */
    uint64_t hash_key1;
    /* Bytes 16 to 23. */
    uint64_t hash_key2;
    /* Bytes 24 to 31. */
    uint64_t hash_key3;
    /* Bytes 32 to 39. */
    uint64_t hash_key4;
    /* Most that is sent, in kbit/s of frames without their check sequences; 0 is as fast as the port (RAW_PACKET). */
    uint32_t rate_limit;
    /* Bytes that may leave back to back, with `rate_limit`; 0 is one frame. */
    uint32_t max_burst;
    /* Bytes of a frame of such a burst, by which it is cut; 0 lets it have a frame more. */
    uint16_t typical_packet;
    uint8_t reserved_178[78];
};
#define VERBENA_QP_CONTEXT_HAS_SRQ_MASK UINT32_C(0x1)
#define VERBENA_QP_CONTEXT_HAS_SRQ_SHIFT 0
#define VERBENA_QP_CONTEXT_SQ_SIG_ALL_MASK UINT32_C(0x2)
#define VERBENA_QP_CONTEXT_SQ_SIG_ALL_SHIFT 1
#define VERBENA_QP_CONTEXT_SQ_DRAINING_MASK UINT32_C(0x1)
#define VERBENA_QP_CONTEXT_SQ_DRAINING_SHIFT 0
#define VERBENA_QP_CONTEXT_STRIP_VLAN_MASK UINT32_C(0x2)
#define VERBENA_QP_CONTEXT_STRIP_VLAN_SHIFT 1
#define VERBENA_QP_CONTEXT_SCATTER_FCS_MASK UINT32_C(0x4)
#define VERBENA_QP_CONTEXT_SCATTER_FCS_SHIFT 2
VERBENA_ASSERT(sizeof(struct verbena_qp_context) == 256);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, state) == 0);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, qp_type) == 1);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, port) == 2);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, mtu) == 3);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, pd) == 4);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, send_cq) == 8);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, recv_cq) == 12);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, srq) == 16);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, flags_20) == 20);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, page) == 22);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, sq_iova) == 24);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, rq_iova) == 32);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, sq_log) == 40);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, rq_log) == 41);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, rq_stride_log) == 42);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, access) == 43);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, pkey_index) == 44);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, retry_cnt) == 46);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, rnr_retry) == 47);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, timeout) == 48);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, min_rnr_timer) == 49);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, max_rd_atomic) == 50);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, max_dest_rd_atomic) == 51);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, dest_qpn) == 52);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, qkey) == 56);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, sq_psn) == 60);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, rq_psn) == 64);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, sgid_index) == 68);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, hop_limit) == 69);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, traffic_class) == 70);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, sl) == 71);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, flow_label) == 72);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, dgid) == 76);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, dmac) == 92);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, udp_sport) == 98);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, max_inline) == 100);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, max_send_sge) == 104);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, max_recv_sge) == 105);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, flags_106) == 106);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, qpn) == 108);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, xrcd) == 112);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, table_number) == 116);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, hash_fields) == 120);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, hash_function) == 124);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, hash_key0) == 128);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, hash_key1) == 136);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, hash_key2) == 144);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, hash_key3) == 152);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, hash_key4) == 160);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, rate_limit) == 168);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, max_burst) == 172);
VERBENA_ASSERT(offsetof(struct verbena_qp_context, typical_packet) == 176);

/* Context of a completion queue: CREATE_CQ, RESIZE_CQ, MODIFY_CQ. The last of these reads only the moderation, which RESIZE_CQ leaves as it is. */
struct verbena_cq_context {
    /* DMA address of the ring. */
    uint64_t ring_iova;
    /* DMA address of the u32 consumer index that software keeps. */
    uint64_t ci_iova;
    /* Log2 of the entries. */
    uint8_t log_size;
    /* Index of the event queue. */
    uint8_t vector;
    /* Doorbell page. */
    uint16_t page;
    /* ignore_overrun: Overwrite instead of failing where the ring is full. */
    /* stamped: CQEs say when they were written (TIMESTAMP). */
    uint8_t flags;
    uint8_t reserved_21[1];
    /* An event is held back until it tells of this many completions; 0 and 1: until the first (MODERATION). */
    uint16_t event_count;
    /* Longest time in microseconds that an event is held back; 0: no event is (MODERATION). */
    uint16_t event_period;
    uint8_t reserved_26[38];
};
#define VERBENA_CQ_CONTEXT_IGNORE_OVERRUN_MASK UINT32_C(0x1)
#define VERBENA_CQ_CONTEXT_IGNORE_OVERRUN_SHIFT 0
#define VERBENA_CQ_CONTEXT_STAMPED_MASK UINT32_C(0x2)
#define VERBENA_CQ_CONTEXT_STAMPED_SHIFT 1
VERBENA_ASSERT(sizeof(struct verbena_cq_context) == 64);
VERBENA_ASSERT(offsetof(struct verbena_cq_context, ring_iova) == 0);
VERBENA_ASSERT(offsetof(struct verbena_cq_context, ci_iova) == 8);
VERBENA_ASSERT(offsetof(struct verbena_cq_context, log_size) == 16);
VERBENA_ASSERT(offsetof(struct verbena_cq_context, vector) == 17);
VERBENA_ASSERT(offsetof(struct verbena_cq_context, page) == 18);
VERBENA_ASSERT(offsetof(struct verbena_cq_context, flags) == 20);
VERBENA_ASSERT(offsetof(struct verbena_cq_context, event_count) == 22);
VERBENA_ASSERT(offsetof(struct verbena_cq_context, event_period) == 24);

/* Context of a shared receive queue: CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ. */
struct verbena_srq_context {
    /* Protection domain. */
    uint32_t pd;
    uint8_t reserved_4[4];
    /* DMA address of the ring. */
    uint64_t ring_iova;
    /* Log2 of the entries. */
    uint8_t log_size;
    /* Log2 of the bytes of a WQE. */
    uint8_t stride_log;
    /* Doorbell page. */
    uint16_t page;
    /* An event is raised when fewer WQEs than this are left; 0 is never. */
    uint32_t limit;
    /* Most SGEs of a WQE. */
    uint8_t max_sge;
    uint8_t reserved_25[3];
    /* XRC domain; 0 for a queue that QPs are created with. */
    uint32_t xrcd;
    /* Where its receives complete, with `xrcd`. */
    uint32_t cq;
    uint8_t reserved_36[28];
};
VERBENA_ASSERT(sizeof(struct verbena_srq_context) == 64);
VERBENA_ASSERT(offsetof(struct verbena_srq_context, pd) == 0);
VERBENA_ASSERT(offsetof(struct verbena_srq_context, ring_iova) == 8);
VERBENA_ASSERT(offsetof(struct verbena_srq_context, log_size) == 16);
VERBENA_ASSERT(offsetof(struct verbena_srq_context, stride_log) == 17);
VERBENA_ASSERT(offsetof(struct verbena_srq_context, page) == 18);
VERBENA_ASSERT(offsetof(struct verbena_srq_context, limit) == 20);
VERBENA_ASSERT(offsetof(struct verbena_srq_context, max_sge) == 24);
VERBENA_ASSERT(offsetof(struct verbena_srq_context, xrcd) == 28);
VERBENA_ASSERT(offsetof(struct verbena_srq_context, cq) == 32);

/* Context of an event queue: CREATE_EQ. */
struct verbena_eq_context {
    /* DMA address of the ring. */
    uint64_t ring_iova;
    /* Log2 of the entries. */
    uint8_t log_size;
    /* Interrupt vector. */
    uint8_t vector;
    uint8_t reserved_10[22];
};
VERBENA_ASSERT(sizeof(struct verbena_eq_context) == 32);
VERBENA_ASSERT(offsetof(struct verbena_eq_context, ring_iova) == 0);
VERBENA_ASSERT(offsetof(struct verbena_eq_context, log_size) == 8);
VERBENA_ASSERT(offsetof(struct verbena_eq_context, vector) == 9);

/* Context of a memory registration: CREATE_MR. */
struct verbena_mr_context {
    /* Protection domain. */
    uint32_t pd;
    /* Rights. Values: Access. */
    uint8_t access;
    /* How it finds its memory. Values: MrMode. */
    uint8_t mode;
    /* Log2 of the page size (PAGE_LIST). */
    uint8_t page_shift;
    uint8_t reserved_7[1];
    /* Address of the first byte as keys know it; 0 for a zero-based one. */
    uint64_t va;
    /* Bytes. */
    uint64_t length;
    /* DMA address of the first byte (DIRECT), or of the list of `PageEntry` (PAGE_LIST), or address of the first byte in the process (ON_DEMAND), or its offset in the card's memory (ON_CARD). */
    uint64_t iova;
    /* Offset of the first byte in the first page (PAGE_LIST). */
    uint32_t first_offset;
    uint8_t reserved_36[28];
};
VERBENA_ASSERT(sizeof(struct verbena_mr_context) == 64);
VERBENA_ASSERT(offsetof(struct verbena_mr_context, pd) == 0);
VERBENA_ASSERT(offsetof(struct verbena_mr_context, access) == 4);
VERBENA_ASSERT(offsetof(struct verbena_mr_context, mode) == 5);
VERBENA_ASSERT(offsetof(struct verbena_mr_context, page_shift) == 6);
VERBENA_ASSERT(offsetof(struct verbena_mr_context, va) == 8);
VERBENA_ASSERT(offsetof(struct verbena_mr_context, length) == 16);
VERBENA_ASSERT(offsetof(struct verbena_mr_context, iova) == 24);
VERBENA_ASSERT(offsetof(struct verbena_mr_context, first_offset) == 32);

/* State of a memory window: QUERY_MW. */
struct verbena_mw_context {
    /* Protection domain. */
    uint32_t pd;
    /* Type, 1 or 2. */
    uint8_t mw_type;
    /* Rights. Values: Access. */
    uint8_t access;
    /* bound: The window is bound. */
    uint8_t bound;
    uint8_t reserved_7[1];
    /* Its R_Key. */
    uint32_t rkey;
    /* Key of the MR that it is bound to. */
    uint32_t mr_lkey;
    /* qpn: The QP that bound it (type 2). */
    uint32_t qpn;
    uint8_t reserved_20[4];
    /* First address. */
    uint64_t addr;
    /* Bytes. */
    uint64_t length;
    uint8_t reserved_40[24];
};
#define VERBENA_MW_CONTEXT_BOUND_MASK UINT32_C(0x1)
#define VERBENA_MW_CONTEXT_BOUND_SHIFT 0
#define VERBENA_MW_CONTEXT_QPN_MASK UINT32_C(0xffffff)
#define VERBENA_MW_CONTEXT_QPN_SHIFT 0
VERBENA_ASSERT(sizeof(struct verbena_mw_context) == 64);
VERBENA_ASSERT(offsetof(struct verbena_mw_context, pd) == 0);
VERBENA_ASSERT(offsetof(struct verbena_mw_context, mw_type) == 4);
VERBENA_ASSERT(offsetof(struct verbena_mw_context, access) == 5);
VERBENA_ASSERT(offsetof(struct verbena_mw_context, bound) == 6);
VERBENA_ASSERT(offsetof(struct verbena_mw_context, rkey) == 8);
VERBENA_ASSERT(offsetof(struct verbena_mw_context, mr_lkey) == 12);
VERBENA_ASSERT(offsetof(struct verbena_mw_context, qpn) == 16);
VERBENA_ASSERT(offsetof(struct verbena_mw_context, addr) == 24);
VERBENA_ASSERT(offsetof(struct verbena_mw_context, length) == 32);

/* State of a port: QUERY_PORT (out) and SET_PORT (in). */
struct verbena_port_context {
    /* link_up: The link is up. */
    /* enabled: Software wants the link to be up, as it does when the card is powered up. All functions have one setting, which `CONTROL.reset` does not change. Else the port sends no signal, and LINK says `DISABLED`. */
    /* rx_pause: The port stops sending whole frames while a receiver asks for that. */
    /* tx_pause: The port asks senders of whole frames to stop while receives are missing. */
    uint8_t flags;
    /* Index of the GID in `gid`. */
    uint8_t gid_index;
    /* Kind of `gid`; IB clears the entry. Values: GidType. */
    uint8_t gid_type;
    /* vlan_present: `vlan` is used with `gid`. */
    uint8_t vlan_present;
    /* Speed in Mb/s. */
    uint32_t speed_mbps;
    /* Largest path MTU now, in bytes. */
    uint32_t mtu_active;
    /* Largest path MTU that the card can do, in bytes. */
    uint32_t mtu_max;
    /* Ethernet address. The first byte of the wire is the lowest. */
    uint8_t mac[6];
    /* VLAN of `gid`. */
    uint16_t vlan;
    /* A GID. The first byte of the wire is the lowest. */
    uint8_t gid[16];
    uint8_t reserved_40[24];
};
#define VERBENA_PORT_CONTEXT_LINK_UP_MASK UINT32_C(0x1)
#define VERBENA_PORT_CONTEXT_LINK_UP_SHIFT 0
#define VERBENA_PORT_CONTEXT_ENABLED_MASK UINT32_C(0x2)
#define VERBENA_PORT_CONTEXT_ENABLED_SHIFT 1
#define VERBENA_PORT_CONTEXT_RX_PAUSE_MASK UINT32_C(0x4)
#define VERBENA_PORT_CONTEXT_RX_PAUSE_SHIFT 2
#define VERBENA_PORT_CONTEXT_TX_PAUSE_MASK UINT32_C(0x8)
#define VERBENA_PORT_CONTEXT_TX_PAUSE_SHIFT 3
#define VERBENA_PORT_CONTEXT_VLAN_PRESENT_MASK UINT32_C(0x1)
#define VERBENA_PORT_CONTEXT_VLAN_PRESENT_SHIFT 0
VERBENA_ASSERT(sizeof(struct verbena_port_context) == 64);
VERBENA_ASSERT(offsetof(struct verbena_port_context, flags) == 0);
VERBENA_ASSERT(offsetof(struct verbena_port_context, gid_index) == 1);
VERBENA_ASSERT(offsetof(struct verbena_port_context, gid_type) == 2);
VERBENA_ASSERT(offsetof(struct verbena_port_context, vlan_present) == 3);
VERBENA_ASSERT(offsetof(struct verbena_port_context, speed_mbps) == 4);
VERBENA_ASSERT(offsetof(struct verbena_port_context, mtu_active) == 8);
VERBENA_ASSERT(offsetof(struct verbena_port_context, mtu_max) == 12);
VERBENA_ASSERT(offsetof(struct verbena_port_context, mac) == 16);
VERBENA_ASSERT(offsetof(struct verbena_port_context, vlan) == 22);
VERBENA_ASSERT(offsetof(struct verbena_port_context, gid) == 24);

/* A flow rule: CREATE_FLOW. A frame matches a NORMAL rule if each of its fields, under the rule's mask, is the rule's value under the same mask; a field that the frame does not have matches only a mask of zero. Kinds other than NORMAL and KERNEL have no values and masks. Of the NORMAL rules that match, those of the best priority get a copy each, and what does not trap goes on. Headers after at most two VLAN tags are looked at. */
struct verbena_flow_context {
    /* Kind. Values: FlowKind. */
    uint8_t kind;
    /* Port, counted from 1. */
    uint8_t port;
    /* Priority, 0 is the best. */
    uint16_t precedence;
    /* dont_trap: The rule takes a copy: rules of worse priority are asked too. */
    /* drop: The rule keeps the frame, and gives it to nobody: RX_RULE_DROP counts what no rule of the same priority takes. Only NORMAL rules that trap. */
    /* marked: Frames come with `mark` in their CQE. */
    /* counted: The card counts the frames of the rule: QUERY_FLOW. */
    /* by_vlan: Of the frames with a tag it takes only those whose first one is of 802.1Q, and of a VLAN that its function takes at the port: SET_VLAN. Rules of any kind may have it. */
    uint8_t flags;
    /* 4 or 6: only frames with this version of IP; 0: any, and the fields of IP and after it are not looked at. */
    uint8_t ip_version;
    /* The VLAN tags of the frame. Values: FrameTags. */
    uint8_t tags;
    /* Mask of `tags`. Values: FrameTags. */
    uint8_t tags_mask;
    /* What the rule marks frames with. */
    uint32_t mark;
    uint8_t reserved_12[4];
    /* Destination address. The first byte of the wire is the lowest. */
    uint8_t dmac[6];
    /* Source address. The first byte of the wire is the lowest. */
    uint8_t smac[6];
    /* EtherType, after VLAN tags. */
    uint16_t ether_type;
    /* Tag control information of the first VLAN tag. */
    uint16_t vlan_tci;
    /* Source IP address; one of IPv4 is in the last four bytes. The first byte of the wire is the lowest. */
    uint8_t src_ip[16];
    /* Destination IP address, likewise. The first byte of the wire is the lowest. */
    uint8_t dst_ip[16];
    /* IPv6 flow label. */
    uint32_t flow_label;
    /* Source port of TCP or UDP. */
    uint16_t src_port;
    /* Destination port of TCP or UDP. */
    uint16_t dst_port;
    /* IPv4 protocol, or the header that follows IPv6 and its extensions. */
    uint8_t protocol;
    /* IPv4 TOS or IPv6 traffic class. */
    uint8_t traffic_class;
    /* IPv4 TTL or IPv6 hop limit. */
    uint8_t hop_limit;
    uint8_t reserved_75[5];
    /* Mask of `dmac`. The first byte of the wire is the lowest. */
    uint8_t dmac_mask[6];
    /* Mask of `smac`. The first byte of the wire is the lowest. */
    uint8_t smac_mask[6];
    /* Mask of `ether_type`. */
    uint16_t ether_type_mask;
    /* Mask of `vlan_tci`. */
    uint16_t vlan_tci_mask;
    /* Mask of `src_ip`. The first byte of the wire is the lowest. */
    uint8_t src_ip_mask[16];
    /* Mask of `dst_ip`. The first byte of the wire is the lowest. */
    uint8_t dst_ip_mask[16];
    /* Mask of `flow_label`. */
    uint32_t flow_label_mask;
    /* Mask of `src_port`. */
    uint16_t src_port_mask;
    /* Mask of `dst_port`. */
    uint16_t dst_port_mask;
    /* Mask of `protocol`. */
    uint8_t protocol_mask;
    /* Mask of `traffic_class`. */
    uint8_t traffic_class_mask;
    /* Mask of `hop_limit`. */
    uint8_t hop_limit_mask;
    uint8_t reserved_139[5];
};
#define VERBENA_FLOW_CONTEXT_DONT_TRAP_MASK UINT32_C(0x1)
#define VERBENA_FLOW_CONTEXT_DONT_TRAP_SHIFT 0
#define VERBENA_FLOW_CONTEXT_DROP_MASK UINT32_C(0x2)
#define VERBENA_FLOW_CONTEXT_DROP_SHIFT 1
#define VERBENA_FLOW_CONTEXT_MARKED_MASK UINT32_C(0x4)
#define VERBENA_FLOW_CONTEXT_MARKED_SHIFT 2
#define VERBENA_FLOW_CONTEXT_COUNTED_MASK UINT32_C(0x8)
#define VERBENA_FLOW_CONTEXT_COUNTED_SHIFT 3
#define VERBENA_FLOW_CONTEXT_BY_VLAN_MASK UINT32_C(0x10)
#define VERBENA_FLOW_CONTEXT_BY_VLAN_SHIFT 4
VERBENA_ASSERT(sizeof(struct verbena_flow_context) == 144);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, kind) == 0);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, port) == 1);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, precedence) == 2);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, flags) == 4);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, ip_version) == 5);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, tags) == 6);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, tags_mask) == 7);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, mark) == 8);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, dmac) == 16);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, smac) == 22);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, ether_type) == 28);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, vlan_tci) == 30);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, src_ip) == 32);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, dst_ip) == 48);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, flow_label) == 64);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, src_port) == 68);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, dst_port) == 70);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, protocol) == 72);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, traffic_class) == 73);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, hop_limit) == 74);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, dmac_mask) == 80);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, smac_mask) == 86);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, ether_type_mask) == 92);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, vlan_tci_mask) == 94);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, src_ip_mask) == 96);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, dst_ip_mask) == 112);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, flow_label_mask) == 128);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, src_port_mask) == 132);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, dst_port_mask) == 134);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, protocol_mask) == 136);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, traffic_class_mask) == 137);
VERBENA_ASSERT(offsetof(struct verbena_flow_context, hop_limit_mask) == 138);

/* An indirection table: CREATE_TABLE, MODIFY_TABLE. A frame goes to the work queue whose place in the table is the low bits of its hash. */
struct verbena_table_context {
    /* DMA address of the numbers of the work queues, a u32 for each entry. The card reads them while it executes the command. */
    uint64_t entries_iova;
    /* Log2 of the entries. */
    uint8_t log_size;
    uint8_t reserved_9[7];
};
VERBENA_ASSERT(sizeof(struct verbena_table_context) == 16);
VERBENA_ASSERT(offsetof(struct verbena_table_context, entries_iova) == 0);
VERBENA_ASSERT(offsetof(struct verbena_table_context, log_size) == 8);

/* SET_LAG (in: the first three fields), and one port of it: QUERY_LAG (out). */
struct verbena_lag_context {
    /* How the ports are one. Values: LagMode. */
    uint8_t mode;
    /* Which one packets leave by. Values: LagSelect. */
    uint8_t select;
    /* LACP only. Values: LacpRate. */
    uint8_t rate;
    /* link_up: The link of the port is up. */
    /* active: It has a part of the traffic. */
    uint8_t flags;
    /* QPs whose packets leave by it. */
    uint32_t qps;
    /* LACPDUs received. */
    uint64_t lacp_received;
    /* LACPDUs sent. */
    uint64_t lacp_sent;
    /* The port's own state. Values: LacpState. */
    uint8_t actor_state;
    /* Its partner's. Values: LacpState. */
    uint8_t partner_state;
    /* Number of the partner's port. */
    uint16_t partner_port;
    /* Ports of the partner with the same key can be one. */
    uint16_t partner_key;
    /* The partner's priority. */
    uint16_t partner_priority;
    /* The partner; zero if none was heard of. The first byte of the wire is the lowest. */
    uint8_t partner[6];
    /* The port's aggregation, 1 or 2: ports of the same one are one. */
    uint8_t aggregator;
    uint8_t reserved_39[25];
};
#define VERBENA_LAG_CONTEXT_LINK_UP_MASK UINT32_C(0x1)
#define VERBENA_LAG_CONTEXT_LINK_UP_SHIFT 0
#define VERBENA_LAG_CONTEXT_ACTIVE_MASK UINT32_C(0x2)
#define VERBENA_LAG_CONTEXT_ACTIVE_SHIFT 1
VERBENA_ASSERT(sizeof(struct verbena_lag_context) == 64);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, mode) == 0);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, select) == 1);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, rate) == 2);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, flags) == 3);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, qps) == 4);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, lacp_received) == 8);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, lacp_sent) == 16);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, actor_state) == 24);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, partner_state) == 25);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, partner_port) == 26);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, partner_key) == 28);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, partner_priority) == 30);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, partner) == 32);
VERBENA_ASSERT(offsetof(struct verbena_lag_context, aggregator) == 38);

/* Limits of whole Ethernet frames: QUERY_ETHERNET. */
struct verbena_ethernet_limits {
    /* Most indirection tables. */
    uint32_t max_tables;
    /* Most entries of a table. */
    uint32_t max_table_entries;
    /* Most receive work queues. They are QPs, too. */
    uint32_t max_wq;
    /* Fields that can be hashed. Values: HashFields. */
    uint32_t hash_fields;
    /* Most bytes of data of a RAW_TSO (TSO). */
    uint32_t max_tso;
    /* Least rate limit of a QP in kbit/s (PACING). */
    uint32_t min_rate_limit;
    /* Largest rate limit of a QP in kbit/s (PACING). */
    uint32_t max_rate_limit;
    uint8_t reserved_28[4];
};
VERBENA_ASSERT(sizeof(struct verbena_ethernet_limits) == 32);
VERBENA_ASSERT(offsetof(struct verbena_ethernet_limits, max_tables) == 0);
VERBENA_ASSERT(offsetof(struct verbena_ethernet_limits, max_table_entries) == 4);
VERBENA_ASSERT(offsetof(struct verbena_ethernet_limits, max_wq) == 8);
VERBENA_ASSERT(offsetof(struct verbena_ethernet_limits, hash_fields) == 12);
VERBENA_ASSERT(offsetof(struct verbena_ethernet_limits, max_tso) == 16);
VERBENA_ASSERT(offsetof(struct verbena_ethernet_limits, min_rate_limit) == 20);
VERBENA_ASSERT(offsetof(struct verbena_ethernet_limits, max_rate_limit) == 24);

/* Limits of the card. */
struct verbena_card_limits {
    /* Most QPs. */
    uint32_t max_qp;
    /* Most WQEs outstanding on a queue. */
    uint32_t max_qp_wr;
    /* Most SGEs of a WQE. */
    uint32_t max_sge;
    /* Most SGEs of a READ. */
    uint32_t max_sge_rd;
    /* Most bytes of inline data. */
    uint32_t max_inline;
    /* Most CQs. */
    uint32_t max_cq;
    /* Most entries of a CQ. */
    uint32_t max_cqe;
    /* Most MRs. */
    uint32_t max_mr;
    /* Most bytes of an MR. */
    uint64_t max_mr_size;
    /* Most PDs. */
    uint32_t max_pd;
    /* Most READs and atomics outstanding at a QP as target. */
    uint32_t max_qp_rd_atom;
    /* Most READs and atomics outstanding at a QP as initiator. */
    uint32_t max_qp_init_rd_atom;
    /* Most SRQs. */
    uint32_t max_srq;
    /* Most WQEs of an SRQ. */
    uint32_t max_srq_wr;
    /* Most SGEs of an SRQ's WQE. */
    uint32_t max_srq_sge;
    /* Most memory windows. */
    uint32_t max_mw;
    /* Most address handles. */
    uint32_t max_ah;
    /* Most multicast groups. */
    uint32_t max_mcast_grp;
    /* Most QPs of a multicast group. */
    uint32_t max_mcast_qp_attach;
    /* Ports. */
    uint32_t ports;
    /* Entries of a port's GID table. */
    uint32_t gid_table_len;
    /* Entries of a port's P_Key table. */
    uint32_t pkey_table_len;
    /* Clock of the timestamps in kHz. */
    uint32_t clock_khz;
    /* Page sizes that page lists may have, one bit each. */
    uint64_t page_size_cap;
    /* Firmware: major << 32 | minor << 16 | patch. */
    uint64_t fw_ver;
    /* Event queues of a function. */
    uint32_t eq_count;
    /* Part number to present to software. */
    uint32_t part_id;
    /* Most READs and atomics outstanding at the card as target. */
    uint32_t max_res_rd_atom;
    /* Most multicast attachments in all. */
    uint32_t max_total_mcast_qp_attach;
};
VERBENA_ASSERT(sizeof(struct verbena_card_limits) == 128);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_qp) == 0);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_qp_wr) == 4);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_sge) == 8);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_sge_rd) == 12);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_inline) == 16);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_cq) == 20);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_cqe) == 24);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_mr) == 28);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_mr_size) == 32);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_pd) == 40);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_qp_rd_atom) == 44);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_qp_init_rd_atom) == 48);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_srq) == 52);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_srq_wr) == 56);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_srq_sge) == 60);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_mw) == 64);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_ah) == 68);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_mcast_grp) == 72);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_mcast_qp_attach) == 76);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, ports) == 80);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, gid_table_len) == 84);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, pkey_table_len) == 88);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, clock_khz) == 92);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, page_size_cap) == 96);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, fw_ver) == 104);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, eq_count) == 112);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, part_id) == 116);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_res_rd_atom) == 120);
VERBENA_ASSERT(offsetof(struct verbena_card_limits, max_total_mcast_qp_attach) == 124);

/* Entry of a page list. */
struct verbena_page_entry {
    /* DMA address of the page. */
    uint64_t addr;
};
VERBENA_ASSERT(sizeof(struct verbena_page_entry) == 8);
VERBENA_ASSERT(offsetof(struct verbena_page_entry, addr) == 0);

#endif
