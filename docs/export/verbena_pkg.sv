// Generated from the crate `fpga-regs` of Verbena by `verbena export`; do not edit.
// All numbers are little endian: bit 0 is the lowest bit of byte 0.

/* verilator lint_off UNUSEDPARAM */
/* verilator lint_off SYMRSVDWORD */

package verbena_pkg;

  // ---- Constants ----

  // PCI vendor.
  localparam logic [31:0] VENDOR_ID = 32'h1bd4;
  // PCI device.
  localparam logic [31:0] DEVICE_ID = 32'hf10a;
  // PCI class code: Ethernet controller.
  localparam logic [31:0] CLASS_CODE = 32'h20000;
  // The register `ID`(super::ID) of this card.
  localparam logic [31:0] ID_VALUE = 32'hf10a1bd4;
  // Major version of this definition: software refuses another one.
  localparam logic [31:0] VERSION_MAJOR = 32'h1;
  // Minor version of this definition: a higher one only adds.
  localparam logic [31:0] VERSION_MINOR = 32'h2;
  // The register `VERSION`(super::VERSION) of this definition.
  localparam logic [31:0] VERSION_VALUE = 32'h10002;
  // Bytes of BAR0 (64 bits, not prefetchable).
  localparam logic [31:0] BAR0_BYTES = 32'h100000;
  // The BAR that holds the MSI-X table and its pending bits.
  localparam logic [31:0] MSIX_BAR = 32'h2;
  // Bytes of that BAR.
  localparam logic [31:0] MSIX_BAR_BYTES = 32'h4000;
  // Offset of the MSI-X table in that BAR.
  localparam logic [31:0] MSIX_TABLE = 32'h0;
  // Offset of the pending bits in that BAR.
  localparam logic [31:0] MSIX_PBA = 32'h2000;
  // Most interrupt vectors of a function.
  localparam logic [31:0] MAX_VECTORS = 32'h20;
  // Most event queues of a function.
  localparam logic [31:0] MAX_EQS = 32'h20;
  // Ports of the card.
  localparam logic [31:0] PORTS = 32'h2;
  // Bytes of the block.
  localparam logic [31:0] GLOBAL_BYTES = 32'h1000;
  // Offset of port 1 in BAR0.
  localparam logic [31:0] PORT_BASE = 32'h1000;
  // Bytes of a port's block, its GID table included.
  localparam logic [31:0] PORT_BYTES = 32'h1000;
  // Offset of the GID table in a port's block.
  localparam logic [31:0] GID_TABLE = 32'h800;
  // Bytes of an entry.
  localparam logic [31:0] GID_ENTRY_BYTES = 32'h20;
  // Entries of a port's table.
  localparam logic [31:0] GID_ENTRIES = 32'h10;
  // Bytes of a doorbell page.
  localparam logic [31:0] DOORBELL_PAGE_BYTES = 32'h1000;
  // Doorbell pages of a function.
  localparam logic [31:0] DOORBELL_PAGES = 32'h40;
  // Offset of page 0 in BAR0.
  localparam logic [31:0] DOORBELL_BASE = 32'h10000;
  // Offset in a page: push window.
  localparam logic [31:0] PUSH_WINDOW = 32'h800;
  // Bytes of a slot of the push window.
  localparam logic [31:0] PUSH_BYTES = 32'h200;
  // Slots of the push window.
  localparam logic [31:0] PUSH_SLOTS = 32'h4;
  // Bytes of a send queue block.
  localparam logic [31:0] WQE_BLOCK = 32'h40;
  // Bytes of the unit that `WqeCtrl::ds` counts.
  localparam logic [31:0] WQE_UNIT = 32'h10;
  // Most scatter/gather entries of a send or receive WQE.
  localparam logic [31:0] MAX_SGE = 32'h1e;
  // Most bytes of inline data.
  localparam logic [31:0] MAX_INLINE = 32'h200;
  // Most blocks of a WQE.
  localparam logic [31:0] MAX_WQE_BLOCKS = 32'ha;
  // Most bytes of the headers of a RAW_TSO.
  localparam logic [31:0] MAX_TSO_HEADER = 32'h80;

  // ---- Registers: global ----

  // Identity. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_ID = 32'h0;
  localparam logic [31:0] GLOBAL_REG_ID_RESET = 32'hf10a1bd4;
  // Version of this definition; 1.2 is this one. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_VERSION = 32'h4;
  localparam logic [31:0] GLOBAL_REG_VERSION_RESET = 32'h10002;
  // What the card can do. (RO, 8 bytes)
  localparam logic [31:0] GLOBAL_REG_FEATURES = 32'h8;
  // Serial number: the node GUID. (RO, 8 bytes)
  localparam logic [31:0] GLOBAL_REG_SERIAL = 32'h10;
  // Which function of which card this is. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_FUNCTION = 32'h18;
  // Keeps what is written; no effect. (RW, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_SCRATCH = 32'h1c;
  localparam logic [31:0] GLOBAL_REG_SCRATCH_RESET = 32'h0;
  // Enable and reset. (RW, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_CONTROL = 32'h20;
  localparam logic [31:0] GLOBAL_REG_CONTROL_RESET = 32'h0;
  // State of the function. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_STATUS = 32'h24;
  localparam logic [31:0] GLOBAL_REG_STATUS_RESET = 32'h0;
  // Health of the card. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_HEALTH = 32'h28;
  // Why the function failed. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_ERROR_CAUSE = 32'h2c;
  localparam logic [31:0] GLOBAL_REG_ERROR_CAUSE_RESET = 32'h0;
  // The card's time: a free-running count of nanoseconds. (RO, 8 bytes)
  localparam logic [31:0] GLOBAL_REG_TIME = 32'h30;
  // DMA address of the admin command ring; 4 KiB aligned, set before `CONTROL.enable`. (RW, 8 bytes)
  localparam logic [31:0] GLOBAL_REG_ASQ_BASE = 32'h40;
  localparam logic [63:0] GLOBAL_REG_ASQ_BASE_RESET = 64'h0;
  // DMA address of the admin reply ring; 4 KiB aligned, set before `CONTROL.enable`. (RW, 8 bytes)
  localparam logic [31:0] GLOBAL_REG_ACQ_BASE = 32'h48;
  localparam logic [63:0] GLOBAL_REG_ACQ_BASE_RESET = 64'h0;
  // Log2 of the entries of both rings. (RW, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_ADMIN_SIZE = 32'h50;
  localparam logic [31:0] GLOBAL_REG_ADMIN_SIZE_RESET = 32'h0;
  // Running count of commands written: the card fetches up to it. (RW, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_ASQ_DOORBELL = 32'h54;
  localparam logic [31:0] GLOBAL_REG_ASQ_DOORBELL_RESET = 32'h0;
  // Running count of replies consumed. (RW, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_ACQ_CONSUMER = 32'h58;
  localparam logic [31:0] GLOBAL_REG_ACQ_CONSUMER_RESET = 32'h0;
  // Interrupt vectors of the function. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_VECTORS = 32'h80;
  // A set bit masks the vector of its number, which stays pending. (RW, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_VECTOR_MASK = 32'h84;
  localparam logic [31:0] GLOBAL_REG_VECTOR_MASK_RESET = 32'h0;
  // Vectors that fired while masked; writing 1 clears one. (W1C, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_VECTOR_PENDING = 32'h88;
  localparam logic [31:0] GLOBAL_REG_VECTOR_PENDING_RESET = 32'h0;
  // Functions of the card that are open. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_FUNCTIONS_OPEN = 32'h90;
  // QPs of the card, of all functions. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_QPS_IN_USE = 32'h94;
  // CQs of the card, of all functions. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_CQS_IN_USE = 32'h98;
  // Memory registrations and windows of the card, of all functions. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_KEYS_IN_USE = 32'h9c;
  // Blocks in send queues whose WQE was posted and has not completed, of all QPs of the card. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_SENDS_WAITING = 32'ha0;
  // The largest part of `SENDS_WAITING` that is one QP's. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_SENDS_DEEPEST = 32'ha4;
  // Receive WQEs that were posted and not consumed, of all QPs of the card. (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_RECVS_WAITING = 32'ha8;
  // Bytes of the card's own memory, of all functions (ON_CARD_MEMORY). (RO, 4 bytes)
  localparam logic [31:0] GLOBAL_REG_MEMORY = 32'hac;
  // Running count of entries consumed of each event queue. The card never writes over an entry that was not consumed. (RW, 4 bytes, 32 of them)
  localparam logic [31:0] GLOBAL_REG_EQ_CONSUMER = 32'h100;
  localparam logic [31:0] GLOBAL_REG_EQ_CONSUMER_RESET = 32'h0;

  // ---- Registers: port ----

  // Offset of the first one.
  localparam logic [31:0] PORT_FIRST = 32'h1000;
  // Bytes from one to the next.
  localparam logic [31:0] PORT_STRIDE = 32'h1000;
  // How many there are.
  localparam logic [31:0] PORT_COUNT = 32'h2;
  // The link. (RO, 4 bytes)
  localparam logic [31:0] PORT_REG_LINK = 32'h0;
  // Speed in Mb/s. (RO, 4 bytes)
  localparam logic [31:0] PORT_REG_SPEED = 32'h4;
  // Ethernet address; the first byte of the wire is the lowest byte. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_MAC = 32'h8;
  // Largest path MTU now, in bytes. (RO, 4 bytes)
  localparam logic [31:0] PORT_REG_MTU = 32'h10;
  // Largest path MTU that the port can do, in bytes. (RO, 4 bytes)
  localparam logic [31:0] PORT_REG_MTU_MAX = 32'h14;
  // Entries of the GID table. (RO, 4 bytes)
  localparam logic [31:0] PORT_REG_GID_COUNT = 32'h18;
  localparam logic [31:0] PORT_REG_GID_COUNT_RESET = 32'h10;
  // The one P_Key. (RO, 4 bytes)
  localparam logic [31:0] PORT_REG_PKEY = 32'h1c;
  localparam logic [31:0] PORT_REG_PKEY_RESET = 32'hffff;
  // Packets sent, those that TX_DISCARDS counts included. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_TX_PACKETS = 32'h100;
  localparam logic [63:0] PORT_REG_TX_PACKETS_RESET = 64'h0;
  // Bytes sent, from the Ethernet header to the ICRC. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_TX_BYTES = 32'h108;
  localparam logic [63:0] PORT_REG_TX_BYTES_RESET = 64'h0;
  // Packets received. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_PACKETS = 32'h110;
  localparam logic [63:0] PORT_REG_RX_PACKETS_RESET = 64'h0;
  // Bytes received, from the Ethernet header to the ICRC. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_BYTES = 32'h118;
  localparam logic [63:0] PORT_REG_RX_BYTES_RESET = 64'h0;
  // Packets dropped because of a wrong ICRC. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_ICRC_ERRORS = 32'h120;
  localparam logic [63:0] PORT_REG_RX_ICRC_ERRORS_RESET = 64'h0;
  // Packets dropped because a header made no sense. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_MALFORMED = 32'h128;
  localparam logic [63:0] PORT_REG_RX_MALFORMED_RESET = 64'h0;
  // Packets dropped because no QP of this card takes them. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_NO_QP = 32'h130;
  localparam logic [63:0] PORT_REG_RX_NO_QP_RESET = 64'h0;
  // UD packets dropped because of a wrong Q_Key. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_QKEY_ERRORS = 32'h138;
  localparam logic [63:0] PORT_REG_RX_QKEY_ERRORS_RESET = 64'h0;
  // UD and UC messages, and copies of whole frames, dropped because no receive WQE was there. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_NO_RECV = 32'h140;
  localparam logic [63:0] PORT_REG_RX_NO_RECV_RESET = 64'h0;
  // Packets dropped because the card had no room for them. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_OVERFLOW = 32'h148;
  localparam logic [63:0] PORT_REG_RX_OVERFLOW_RESET = 64'h0;
  // Multicast packets sent. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_TX_MULTICAST = 32'h150;
  localparam logic [63:0] PORT_REG_TX_MULTICAST_RESET = 64'h0;
  // Multicast packets received. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_MULTICAST = 32'h158;
  localparam logic [63:0] PORT_REG_RX_MULTICAST_RESET = 64'h0;
  // PSNs of requests that are sent again; a READ counts those of its response. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RETRANSMITS = 32'h160;
  localparam logic [63:0] PORT_REG_RETRANSMITS_RESET = 64'h0;
  // Time-outs of a QP that waited for an acknowledgement. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_ACK_TIMEOUTS = 32'h168;
  localparam logic [63:0] PORT_REG_ACK_TIMEOUTS_RESET = 64'h0;
  // Request packets received with a PSN ahead of the expected one. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_OUT_OF_SEQUENCE = 32'h170;
  localparam logic [63:0] PORT_REG_OUT_OF_SEQUENCE_RESET = 64'h0;
  // Request packets received a second time. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_DUPLICATE = 32'h178;
  localparam logic [63:0] PORT_REG_DUPLICATE_RESET = 64'h0;
  // Sequence error NAKs received. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_SEQUENCE_NAK = 32'h180;
  localparam logic [63:0] PORT_REG_SEQUENCE_NAK_RESET = 64'h0;
  // Receiver-not-ready NAKs sent. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RNR_NAK = 32'h188;
  localparam logic [63:0] PORT_REG_RNR_NAK_RESET = 64'h0;
  // Receiver-not-ready NAKs received. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RNR_NAK_RECEIVED = 32'h190;
  localparam logic [63:0] PORT_REG_RNR_NAK_RECEIVED_RESET = 64'h0;
  // Remote access NAKs sent. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_ACCESS_NAK = 32'h198;
  localparam logic [63:0] PORT_REG_ACCESS_NAK_RESET = 64'h0;
  // Invalid request NAKs sent. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_INVALID_NAK = 32'h1a0;
  localparam logic [63:0] PORT_REG_INVALID_NAK_RESET = 64'h0;
  // Remote operational error NAKs sent. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_OPERATION_NAK = 32'h1a8;
  localparam logic [63:0] PORT_REG_OPERATION_NAK_RESET = 64'h0;
  // Packets received with an ECN mark. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_ECN_MARKED = 32'h1b0;
  localparam logic [63:0] PORT_REG_RX_ECN_MARKED_RESET = 64'h0;
  // Congestion notification packets sent. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_TX_CNP = 32'h1b8;
  localparam logic [63:0] PORT_REG_TX_CNP_RESET = 64'h0;
  // Congestion notification packets received. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_CNP = 32'h1c0;
  localparam logic [63:0] PORT_REG_RX_CNP_RESET = 64'h0;
  // Pause frames sent. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_TX_PAUSE = 32'h1c8;
  localparam logic [63:0] PORT_REG_TX_PAUSE_RESET = 64'h0;
  // Pause frames received. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_PAUSE = 32'h1d0;
  localparam logic [63:0] PORT_REG_RX_PAUSE_RESET = 64'h0;
  // Whole frames dropped because no flow rule of the port takes them. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_NO_RULE = 32'h1d8;
  localparam logic [63:0] PORT_REG_RX_NO_RULE_RESET = 64'h0;
  // Packets and whole frames lost because the link of this port was down. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_LINK_LOST = 32'h1e0;
  localparam logic [63:0] PORT_REG_LINK_LOST_RESET = 64'h0;
  // Whole frames dropped because a flow rule of the port says so. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_RULE_DROP = 32'h1e8;
  localparam logic [63:0] PORT_REG_RX_RULE_DROP_RESET = 64'h0;
  // Whole frames sent that are a part of a RAW_TSO. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_TX_SEGMENTED = 32'h1f0;
  localparam logic [63:0] PORT_REG_TX_SEGMENTED_RESET = 64'h0;
  // Packets dropped because of a wrong P_Key. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_RX_PKEY_ERRORS = 32'h1f8;
  localparam logic [63:0] PORT_REG_RX_PKEY_ERRORS_RESET = 64'h0;
  // Packets and whole frames that were sent, but lost before they left: what the port leads to did not take them in time, or nobody there has the address that they are for. (RO, 8 bytes)
  localparam logic [31:0] PORT_REG_TX_DISCARDS = 32'h200;
  localparam logic [63:0] PORT_REG_TX_DISCARDS_RESET = 64'h0;

  // ---- Registers: gid ----

  // Offset of the first one.
  localparam logic [31:0] GID_FIRST = 32'h800;
  // Bytes from one to the next.
  localparam logic [31:0] GID_STRIDE = 32'h20;
  // How many there are.
  localparam logic [31:0] GID_COUNT = 32'h10;
  // The GID, its 16 bytes in the order of the wire. (RO, 4 bytes, 4 of them)
  localparam logic [31:0] GID_REG_GID = 32'h0;
  // Whether the entry may be used, and its kind. (RO, 4 bytes)
  localparam logic [31:0] GID_REG_GID_ATTR = 32'h10;
  // Its VLAN. (RO, 4 bytes)
  localparam logic [31:0] GID_REG_GID_VLAN = 32'h14;

  // ---- Registers: page ----

  // Offset of the first one.
  localparam logic [31:0] PAGE_FIRST = 32'h10000;
  // Bytes from one to the next.
  localparam logic [31:0] PAGE_STRIDE = 32'h1000;
  // How many there are.
  localparam logic [31:0] PAGE_COUNT = 32'h40;
  // Send queue doorbell. (WO, 8 bytes)
  localparam logic [31:0] PAGE_REG_SQ = 32'h0;
  // Receive queue doorbell. (WO, 8 bytes)
  localparam logic [31:0] PAGE_REG_RQ = 32'h8;
  // Shared receive queue doorbell. (WO, 8 bytes)
  localparam logic [31:0] PAGE_REG_SRQ = 32'h10;
  // Completion queue arm. (WO, 8 bytes)
  localparam logic [31:0] PAGE_REG_CQ_ARM = 32'h18;
  // Push window: 4 slots of 512 bytes. A WQE of at most 512 bytes that was written to the ring is written here too; the doorbell that follows says so and the card need not fetch it. (WO, 8 bytes, 256 of them)
  localparam logic [31:0] PAGE_REG_PUSH = 32'h800;

  // ---- Values ----

  // What a send WQE asks for.
  typedef enum logic [7:0] {
    WQE_OPCODE_NOP = 8'h0, // Nothing; completes in order.
    WQE_OPCODE_SEND = 8'h1, // Send to the peer's next receive WQE.
    WQE_OPCODE_SEND_WITH_IMM = 8'h2, // Send with 32 bits of immediate data.
    WQE_OPCODE_SEND_WITH_INV = 8'h3, // Send, and invalidate the peer's R_Key in `imm`.
    WQE_OPCODE_WRITE = 8'h4, // RDMA write.
    WQE_OPCODE_WRITE_WITH_IMM = 8'h5, // RDMA write that also consumes a receive WQE of the peer.
    WQE_OPCODE_READ = 8'h6, // RDMA read.
    WQE_OPCODE_CMP_SWAP = 8'h7, // Atomic compare and swap of 8 bytes.
    WQE_OPCODE_FETCH_ADD = 8'h8, // Atomic fetch and add of 8 bytes.
    WQE_OPCODE_LOCAL_INV = 8'h9, // Invalidate the local key in `imm`.
    WQE_OPCODE_BIND_MW = 8'ha, // Bind a memory window.
    WQE_OPCODE_RAW_ETH = 8'hb, // A whole Ethernet frame of a raw packet QP.
    WQE_OPCODE_RAW_TSO = 8'hc // Bytes of TCP that a raw packet QP sends as frames: behind the headers in WqeTso, each with the next bytes of the data (TSO).
  } wqe_opcode_e;

  // Access rights; the numbers are those of `ibv_access_flags`.
  // The card may write for local requests.
  localparam logic [7:0] ACCESS_LOCAL_WRITE = 8'h1;
  // A peer may write.
  localparam logic [7:0] ACCESS_REMOTE_WRITE = 8'h2;
  // A peer may read.
  localparam logic [7:0] ACCESS_REMOTE_READ = 8'h4;
  // A peer may do atomics.
  localparam logic [7:0] ACCESS_REMOTE_ATOMIC = 8'h8;
  // Windows may be bound to it.
  localparam logic [7:0] ACCESS_MW_BIND = 8'h10;
  // Remote addresses count from 0 instead of from the virtual address.
  localparam logic [7:0] ACCESS_ZERO_BASED = 8'h20;

  // What completed; the numbers are those of `ibv_wc_opcode`.
  typedef enum logic [7:0] {
    CQE_OPCODE_SEND = 8'h0, // SEND of any kind.
    CQE_OPCODE_RDMA_WRITE = 8'h1, // WRITE of any kind.
    CQE_OPCODE_RDMA_READ = 8'h2, // READ.
    CQE_OPCODE_COMP_SWAP = 8'h3, // Compare and swap.
    CQE_OPCODE_FETCH_ADD = 8'h4, // Fetch and add.
    CQE_OPCODE_BIND_MW = 8'h5, // Window bound.
    CQE_OPCODE_LOCAL_INV = 8'h6, // Key invalidated.
    CQE_OPCODE_TSO = 8'h7, // RAW_TSO.
    CQE_OPCODE_RECV = 8'h80, // A receive WQE took a SEND.
    CQE_OPCODE_RECV_RDMA_WITH_IMM = 8'h81 // A receive WQE took a WRITE_WITH_IMM.
  } cqe_opcode_e;

  // How it ended; the numbers are those of `ibv_wc_status`.
  typedef enum logic [7:0] {
    CQE_STATUS_SUCCESS = 8'h0, // Success.
    CQE_STATUS_LOC_LEN_ERR = 8'h1, // The local data was longer than allowed or than the buffer.
    CQE_STATUS_LOC_QP_OP_ERR = 8'h2, // The local QP could not do this request.
    CQE_STATUS_LOC_EEC_OP_ERR = 8'h3, // Not used.
    CQE_STATUS_LOC_PROT_ERR = 8'h4, // A local key, bound or right was wrong.
    CQE_STATUS_WR_FLUSH_ERR = 8'h5, // The QP was in error before this request ran.
    CQE_STATUS_MW_BIND_ERR = 8'h6, // The window could not be bound, or the key not invalidated.
    CQE_STATUS_BAD_RESP_ERR = 8'h7, // The peer's answer made no sense.
    CQE_STATUS_LOC_ACCESS_ERR = 8'h8, // A peer's WRITE with immediate data named memory that it may not write.
    CQE_STATUS_REM_INV_REQ_ERR = 8'h9, // The peer refused the request as invalid.
    CQE_STATUS_REM_ACCESS_ERR = 8'ha, // The peer refused the key, bounds or rights.
    CQE_STATUS_REM_OP_ERR = 8'hb, // The peer could not finish the request.
    CQE_STATUS_RETRY_EXC_ERR = 8'hc, // The peer did not answer.
    CQE_STATUS_RNR_RETRY_EXC_ERR = 8'hd, // The peer had no receive WQE for too long.
    CQE_STATUS_LOC_RDD_VIOL_ERR = 8'he, // Not used.
    CQE_STATUS_REM_INV_RD_REQ_ERR = 8'hf, // Not used.
    CQE_STATUS_REM_ABORT_ERR = 8'h10, // The peer aborted the request.
    CQE_STATUS_INV_EECN_ERR = 8'h11, // Not used.
    CQE_STATUS_INV_EEC_STATE_ERR = 8'h12, // Not used.
    CQE_STATUS_FATAL_ERR = 8'h13, // The card failed.
    CQE_STATUS_RESP_TIMEOUT_ERR = 8'h14, // Not used.
    CQE_STATUS_GENERAL_ERR = 8'h15, // Anything else.
    CQE_STATUS_TM_ERR = 8'h16, // Not used.
    CQE_STATUS_TM_RNDV_INCOMPLETE = 8'h17 // Not used.
  } cqe_status_e;

  // Vendor syndrome of a CQE or of an admin reply.
  typedef enum logic [7:0] {
    SYNDROME_NONE = 8'h0, // Nothing to say.
    SYNDROME_BAD_OPCODE = 8'h1, // The WQE's opcode is not known.
    SYNDROME_OPCODE_QP_TYPE = 8'h2, // The type of the QP does not allow the opcode.
    SYNDROME_BAD_WQE = 8'h3, // `ds`, `num_sge` or a length of the WQE do not agree.
    SYNDROME_BAD_WQE_INDEX = 8'h4, // The WQE's index is not the one expected here.
    SYNDROME_TOO_MANY_SGE = 8'h5, // Too many SGEs.
    SYNDROME_INLINE_TOO_LONG = 8'h6, // Too much inline data.
    SYNDROME_MESSAGE_TOO_LONG = 8'h7, // The message is longer than the largest one, or than the MTU (UD).
    SYNDROME_RECV_TOO_SHORT = 8'h8, // The message does not fit the receive WQE.
    SYNDROME_ATOMIC_ALIGN = 8'h9, // An atomic is not of 8 bytes or not aligned to 8.
    SYNDROME_BAD_ADDRESS = 8'ha, // A key or address is not that of an address handle that can be used.
    SYNDROME_LKEY_UNKNOWN = 8'h10, // No L_Key of this number.
    SYNDROME_LKEY_PD = 8'h11, // The L_Key is of another PD.
    SYNDROME_LKEY_BOUNDS = 8'h12, // The L_Key does not cover the range.
    SYNDROME_LKEY_ACCESS = 8'h13, // The L_Key does not allow writing.
    SYNDROME_LOCAL_DMA = 8'h14, // The memory of a local key is gone, or the bus refused it.
    SYNDROME_RKEY_UNKNOWN = 8'h20, // No R_Key of this number.
    SYNDROME_RKEY_PD = 8'h21, // The R_Key is of another PD.
    SYNDROME_RKEY_BOUNDS = 8'h22, // The R_Key does not cover the range.
    SYNDROME_RKEY_ACCESS = 8'h23, // The R_Key does not allow this access.
    SYNDROME_QP_ACCESS = 8'h24, // The QP does not allow this access.
    SYNDROME_RKEY_QP = 8'h25, // The window belongs to another QP.
    SYNDROME_REMOTE_DMA = 8'h26, // The memory of a remote key is gone, or the bus refused it.
    SYNDROME_KEY_NOT_INVALIDATABLE = 8'h27, // The key cannot be invalidated.
    SYNDROME_BAD_BIND = 8'h28, // The window cannot be bound like this.
    SYNDROME_ACK_TIMEOUT = 8'h30, // No acknowledgement in time.
    SYNDROME_SEQUENCE_NAK = 8'h31, // The peer repeated its sequence error NAK too often.
    SYNDROME_RNR_NAK = 8'h32, // The peer repeated its receiver-not-ready NAK too often.
    SYNDROME_NAK_INVALID_REQUEST = 8'h33, // The peer's NAK: invalid request.
    SYNDROME_NAK_REMOTE_ACCESS = 8'h34, // The peer's NAK: remote access error.
    SYNDROME_NAK_REMOTE_OPERATION = 8'h35, // The peer's NAK: remote operational error.
    SYNDROME_BAD_RESPONSE = 8'h36, // The peer's answer does not fit the request.
    SYNDROME_NO_ROUTE = 8'h37, // No path to the destination, or the port is down.
    SYNDROME_PACKET_SEQUENCE = 8'h38, // The opcodes of the packets do not follow one another.
    SYNDROME_TOO_MANY_RD_ATOMIC = 8'h39, // More READs or atomics outstanding than agreed.
    SYNDROME_PACKET_LENGTH = 8'h3a, // A packet's length does not fit its header.
    SYNDROME_FLUSH_MODIFIED = 8'h40, // Flushed: software moved the QP to error.
    SYNDROME_FLUSH_EARLIER = 8'h41, // Flushed: an earlier request of the QP failed.
    SYNDROME_FLUSH_RESPONDER = 8'h42, // Flushed: the peer's request failed at this QP's responder.
    SYNDROME_FLUSH_CARD = 8'h43, // Flushed: the card or its port failed.
    SYNDROME_CQ_OVERRUN = 8'h48, // The completion queue is full.
    SYNDROME_NO_OBJECT = 8'h60, // Command: the object's number is not in use.
    SYNDROME_NOT_OWNER = 8'h61, // Command: the object is of another function or PD.
    SYNDROME_STILL_USED = 8'h62, // Command: others still use the object.
    SYNDROME_BAD_SIZE = 8'h63, // Command: a ring's size is not allowed.
    SYNDROME_BAD_IOVA = 8'h64, // Command: an address is not aligned or cannot be reached.
    SYNDROME_BAD_MAILBOX = 8'h65, // Command: the mailbox is too short.
    SYNDROME_BAD_ACCESS = 8'h66, // Command: access rights that do not go together.
    SYNDROME_ATTR_MISSING = 8'h67, // Command: a required attribute is missing.
    SYNDROME_ATTR_NOT_ALLOWED = 8'h68, // Command: an attribute is not allowed in this transition.
    SYNDROME_ATTR_RANGE = 8'h69, // Command: an attribute's value is out of range.
    SYNDROME_WRONG_STATE = 8'h6a, // Command: the QP is not in the state that was named.
    SYNDROME_BAD_GID_INDEX = 8'h6b, // Command: no such GID index.
    SYNDROME_BAD_PORT = 8'h6c, // Command: no such port.
    SYNDROME_TABLE_FULL = 8'h6d, // Command: the table of this kind of object is full.
    SYNDROME_RESERVED_SET = 8'h6e // Command: reserved bits are set.
  } syndrome_e;

  // What the card finds in a frame, behind its VLAN tags.
  typedef enum logic [7:0] {
    FRAME_KIND_OTHER = 8'h0, // No IP, or more tags than it passes.
    FRAME_KIND_IPV4 = 8'h1, // IPv4 with something else than TCP or UDP.
    FRAME_KIND_IPV4_FRAGMENT = 8'h2, // A part of an IPv4 packet.
    FRAME_KIND_IPV4_TCP = 8'h3, // TCP over IPv4.
    FRAME_KIND_IPV4_UDP = 8'h4, // UDP over IPv4.
    FRAME_KIND_IPV6 = 8'h5, // IPv6 with something else than TCP or UDP.
    FRAME_KIND_IPV6_FRAGMENT = 8'h6, // A part of an IPv6 packet.
    FRAME_KIND_IPV6_TCP = 8'h7, // TCP over IPv6.
    FRAME_KIND_IPV6_UDP = 8'h8 // UDP over IPv6.
  } frame_kind_e;

  // What happened.
  typedef enum logic [7:0] {
    EVENT_KIND_COMPLETION = 8'h1, // An armed CQ has a new CQE; `object` is the CQN.
    EVENT_KIND_CQ_ERR = 8'h2, // A CQ overran; `object` is the CQN.
    EVENT_KIND_QP_FATAL = 8'h3, // A QP failed without a CQE to say so; `object` is the QPN.
    EVENT_KIND_QP_REQ_ERR = 8'h4, // A peer's request was invalid; `object` is the QPN.
    EVENT_KIND_QP_ACCESS_ERR = 8'h5, // A peer's request violated access rights; `object` is the QPN.
    EVENT_KIND_COMM_EST = 8'h6, // First packet on a QP in RTR; `object` is the QPN.
    EVENT_KIND_SQ_DRAINED = 8'h7, // The send queue drained after SQD; `object` is the QPN.
    EVENT_KIND_SRQ_ERR = 8'h8, // An SRQ failed; `object` is the SRQN.
    EVENT_KIND_SRQ_LIMIT = 8'h9, // An SRQ fell below its limit; `object` is the SRQN.
    EVENT_KIND_QP_LAST_WQE = 8'ha, // A QP took its last WQE from its SRQ; `object` is the QPN.
    EVENT_KIND_PORT_ACTIVE = 8'hb, // The link came up.
    EVENT_KIND_PORT_ERR = 8'hc, // The link went down.
    EVENT_KIND_DEVICE_FATAL = 8'hd, // The card failed; `data` is the error cause.
    EVENT_KIND_WQ_FATAL = 8'he, // A receive work queue failed; `object` is its number, a QPN.
    EVENT_KIND_GID_CHANGE = 8'hf // An entry of the port's GID table was added or removed.
  } event_kind_e;

  // What a command asks for.
  typedef enum logic [15:0] {
    ADMIN_OPCODE_NOP = 16'h0, // Nothing.
    ADMIN_OPCODE_QUERY_CARD = 16'h1, // Limits of the card.
    ADMIN_OPCODE_QUERY_PORT = 16'h2, // State of a port.
    ADMIN_OPCODE_SET_PORT = 16'h3, // Settings of a port.
    ADMIN_OPCODE_QUERY_ETHERNET = 16'h4, // Limits of whole Ethernet frames.
    ADMIN_OPCODE_ALLOC_PD = 16'h10, // New protection domain.
    ADMIN_OPCODE_FREE_PD = 16'h11, // Frees a protection domain.
    ADMIN_OPCODE_OPEN_XRCD = 16'h14, // Opens an XRC domain, a new one or that of other functions.
    ADMIN_OPCODE_CLOSE_XRCD = 16'h15, // Closes an XRC domain; it ends with the last function that has it open.
    ADMIN_OPCODE_CREATE_MR = 16'h18, // Registers memory.
    ADMIN_OPCODE_DESTROY_MR = 16'h19, // Frees a memory registration.
    ADMIN_OPCODE_CREATE_MW = 16'h1a, // New memory window.
    ADMIN_OPCODE_DESTROY_MW = 16'h1b, // Frees a memory window.
    ADMIN_OPCODE_QUERY_MW = 16'h1c, // State of a memory window.
    ADMIN_OPCODE_MODIFY_MR = 16'h1d, // Changes a memory registration, whose key stays.
    ADMIN_OPCODE_CREATE_EQ = 16'h20, // New event queue.
    ADMIN_OPCODE_DESTROY_EQ = 16'h21, // Frees an event queue.
    ADMIN_OPCODE_CREATE_CQ = 16'h28, // New completion queue.
    ADMIN_OPCODE_RESIZE_CQ = 16'h29, // Moves a completion queue to another ring.
    ADMIN_OPCODE_DESTROY_CQ = 16'h2a, // Frees a completion queue.
    ADMIN_OPCODE_MODIFY_CQ = 16'h2b, // Changes the moderation of a completion queue's events.
    ADMIN_OPCODE_CREATE_SRQ = 16'h30, // New shared receive queue.
    ADMIN_OPCODE_MODIFY_SRQ = 16'h31, // Changes the limit of a shared receive queue.
    ADMIN_OPCODE_QUERY_SRQ = 16'h32, // State of a shared receive queue.
    ADMIN_OPCODE_DESTROY_SRQ = 16'h33, // Frees a shared receive queue.
    ADMIN_OPCODE_CREATE_QP = 16'h38, // New queue pair, in RESET.
    ADMIN_OPCODE_MODIFY_QP = 16'h39, // Changes a queue pair's state and attributes.
    ADMIN_OPCODE_QUERY_QP = 16'h3a, // State of a queue pair.
    ADMIN_OPCODE_DESTROY_QP = 16'h3b, // Frees a queue pair; an XRC_RECV one when no function holds it any more.
    ADMIN_OPCODE_OPEN_QP = 16'h3c, // Holds an XRC_RECV queue pair that another function has created.
    ADMIN_OPCODE_ATTACH_MCAST = 16'h40, // Joins a multicast group.
    ADMIN_OPCODE_DETACH_MCAST = 16'h41, // Leaves a multicast group.
    ADMIN_OPCODE_CREATE_FLOW = 16'h44, // New flow rule: which frames a raw packet QP receives.
    ADMIN_OPCODE_DESTROY_FLOW = 16'h45, // Frees a flow rule.
    ADMIN_OPCODE_QUERY_FLOW = 16'h46, // What a flow rule has counted.
    ADMIN_OPCODE_SET_VLAN = 16'h47, // Whether the function takes a VLAN, by its flow rules with `by_vlan`.
    ADMIN_OPCODE_RESOLVE = 16'h48, // The Ethernet address of a GID.
    ADMIN_OPCODE_CREATE_TABLE = 16'h4c, // New indirection table of receive work queues.
    ADMIN_OPCODE_MODIFY_TABLE = 16'h4d, // Changes all entries of an indirection table, between two frames.
    ADMIN_OPCODE_DESTROY_TABLE = 16'h4e, // Frees an indirection table.
    ADMIN_OPCODE_ALLOC_PAGE = 16'h50, // Takes a doorbell page.
    ADMIN_OPCODE_FREE_PAGE = 16'h51, // Frees a doorbell page.
    ADMIN_OPCODE_ALLOC_MEMORY = 16'h58, // Takes a part of the card's own memory, zeroed.
    ADMIN_OPCODE_FREE_MEMORY = 16'h59, // Frees a part of the card's own memory.
    ADMIN_OPCODE_WRITE_MEMORY = 16'h5a, // Copies the bytes at `in_iova` into the card's own memory.
    ADMIN_OPCODE_READ_MEMORY = 16'h5b, // Copies bytes of the card's own memory to `out_iova`.
    ADMIN_OPCODE_SET_LAG = 16'h60, // Makes the ports of the card one, or two again. No QP may be there.
    ADMIN_OPCODE_QUERY_LAG = 16'h61 // Whether the ports are one, and how a port of it is.
  } admin_opcode_e;

  // How a command ended.
  typedef enum logic [7:0] {
    ADMIN_STATUS_OK = 8'h0, // Done.
    ADMIN_STATUS_BAD_OPCODE = 8'h1, // The opcode is not known.
    ADMIN_STATUS_BAD_PARAM = 8'h2, // A parameter is out of range.
    ADMIN_STATUS_NO_RESOURCE = 8'h3, // The card has no more of this kind.
    ADMIN_STATUS_BAD_STATE = 8'h4, // The object is in a state that does not allow it.
    ADMIN_STATUS_IN_USE = 8'h5, // Others still use the object.
    ADMIN_STATUS_NOT_FOUND = 8'h6, // No object of this number.
    ADMIN_STATUS_LIMIT = 8'h7, // Above a limit of the card.
    ADMIN_STATUS_NOT_SUPPORTED = 8'h8, // Known, but this card does not do it.
    ADMIN_STATUS_INTERNAL = 8'h9, // The card failed.
    ADMIN_STATUS_DMA_ERROR = 8'ha // A mailbox or ring could not be read or written.
  } admin_status_e;

  // State of a queue pair; the numbers are those of `ibv_qp_state`.
  typedef enum logic [7:0] {
    QP_STATE_RESET = 8'h0, // Nothing runs.
    QP_STATE_INIT = 8'h1, // Receives may be posted.
    QP_STATE_RTR = 8'h2, // Ready to receive.
    QP_STATE_RTS = 8'h3, // Ready to send.
    QP_STATE_SQD = 8'h4, // The send queue drains.
    QP_STATE_SQE = 8'h5, // The send queue is in error.
    QP_STATE_ERR = 8'h6 // Everything is flushed.
  } qp_state_e;

  // Transport of a queue pair; the numbers below 0xf0 are those of `ibv_qp_type`.
  typedef enum logic [7:0] {
    QP_TYPE_RC = 8'h2, // Reliable connection.
    QP_TYPE_UC = 8'h3, // Unreliable connection.
    QP_TYPE_UD = 8'h4, // Unreliable datagram.
    QP_TYPE_RAW_PACKET = 8'h8, // Whole Ethernet frames.
    QP_TYPE_XRC_SEND = 8'h9, // Sending end of an extended reliable connection.
    QP_TYPE_XRC_RECV = 8'ha, // Receiving end of an extended reliable connection.
    QP_TYPE_WQ = 8'hf0, // Receive work queue: a receive queue for whole Ethernet frames, without a send queue, that indirection tables name. It goes from RESET to RTR.
    QP_TYPE_RX_HASH = 8'hf1 // Whole Ethernet frames, spread over the work queues of an indirection table by a hash. It has no queues and no states, and receives from its creation on.
  } qp_type_e;

  // The fields of a frame that are hashed, in this order: source address, destination address, source port, destination port; the numbers are those of `ibv_rx_hash_fields`. What a frame does not have is left out: a fragment has no ports, and the hash of a frame without any of the fields is 0.
  // Source address of IPv4.
  localparam logic [31:0] HASH_FIELDS_SRC_IPV4 = 32'h1;
  // Destination address of IPv4.
  localparam logic [31:0] HASH_FIELDS_DST_IPV4 = 32'h2;
  // Source address of IPv6.
  localparam logic [31:0] HASH_FIELDS_SRC_IPV6 = 32'h4;
  // Destination address of IPv6.
  localparam logic [31:0] HASH_FIELDS_DST_IPV6 = 32'h8;
  // Source port of TCP.
  localparam logic [31:0] HASH_FIELDS_SRC_PORT_TCP = 32'h10;
  // Destination port of TCP.
  localparam logic [31:0] HASH_FIELDS_DST_PORT_TCP = 32'h20;
  // Source port of UDP.
  localparam logic [31:0] HASH_FIELDS_SRC_PORT_UDP = 32'h40;
  // Destination port of UDP.
  localparam logic [31:0] HASH_FIELDS_DST_PORT_UDP = 32'h80;

  // How an RX-hash QP computes the hash; the numbers are those of `ibv_rx_hash_function_flags`.
  typedef enum logic [7:0] {
    HASH_FUNCTION_TOEPLITZ = 8'h1 // Toeplitz, with the 40 bytes of `hash_key0` to `hash_key4`.
  } hash_function_e;

  // How a memory registration finds its memory.
  typedef enum logic [7:0] {
    MR_MODE_DIRECT = 8'h0, // One range of DMA addresses.
    MR_MODE_PAGE_LIST = 8'h1, // A list of pages.
    MR_MODE_NULL = 8'h2, // There is none (NULL_MR): it reads as zeros, and what is written to it is lost. It has all addresses and no R_Key.
    MR_MODE_ON_DEMAND = 8'h3, // Whatever the process that created it has at an address when that is accessed (ON_DEMAND): nothing is mapped for DMA before.
    MR_MODE_ON_CARD = 8'h4 // The card's own (ON_CARD_MEMORY), a part of what ALLOC_MEMORY gave.
  } mr_mode_e;

  // Kind of a GID; the numbers are those of `ibv_gid_type`.
  typedef enum logic [7:0] {
    GID_TYPE_IB = 8'h0, // InfiniBand; also an empty entry.
    GID_TYPE_ROCE_V1 = 8'h1, // RoCE version 1.
    GID_TYPE_ROCE_V2 = 8'h2 // RoCE version 2.
  } gid_type_e;

  // Kind of a flow rule; the numbers are those of `ibv_flow_attr_type`, up to SNIFFER.
  typedef enum logic [7:0] {
    FLOW_KIND_NORMAL = 8'h0, // Frames whose fields match.
    FLOW_KIND_ALL_DEFAULT = 8'h1, // Every frame that no NORMAL rule keeps.
    FLOW_KIND_MC_DEFAULT = 8'h2, // Every multicast frame that no NORMAL rule keeps.
    FLOW_KIND_SNIFFER = 8'h3, // A copy of every frame, whatever other rules say.
    FLOW_KIND_KERNEL = 8'h4 // For the kernel of the machine: frames whose fields match and that no rule of another kind keeps, and a copy of ARP and multicast frames that others keep. A multicast frame that a rule for ports of TCP or UDP keeps is not copied. Of the KERNEL rules that match, those of the best priority get a copy each.
  } flow_kind_e;

  // The VLAN tags of a frame.
  // It has one.
  localparam logic [7:0] FRAME_TAGS_ANY = 8'h1;
  // It has a second one.
  localparam logic [7:0] FRAME_TAGS_SECOND = 8'h2;
  // The first is one of a service (0x88a8), not of a customer (0x8100).
  localparam logic [7:0] FRAME_TAGS_SERVICE = 8'h4;

  // How the ports of a card are one; the numbers are those of Linux bonding.
  typedef enum logic [7:0] {
    LAG_MODE_OFF = 8'h0, // They are two.
    LAG_MODE_ACTIVE_BACKUP = 8'h1, // Port 1 has the traffic, and port 2 while the link of port 1 is down.
    LAG_MODE_XOR = 8'h2, // Both have it (a static aggregation).
    LAG_MODE_LACP = 8'h4 // Those have it that the card negotiates by LACP.
  } lag_mode_e;

  // Which port the packets of a QP leave by.
  typedef enum logic [7:0] {
    LAG_SELECT_AFFINITY = 8'h0, // Each QP has a port, in turn, from RTR on.
    LAG_SELECT_HASH = 8'h1 // By a hash of the UDP source port; of a frame, by a hash of its fields.
  } lag_select_e;

  // How often the partner is asked to send LACPDUs.
  typedef enum logic [7:0] {
    LACP_RATE_FAST = 8'h0, // Every second; it is gone after three.
    LACP_RATE_SLOW = 8'h1 // Every thirty seconds; it is gone after ninety.
  } lacp_rate_e;

  // The state of a port in a LACPDU (IEEE 802.1AX-2014, 6.4.2.3).
  // It sends without being asked.
  localparam logic [7:0] LACP_STATE_ACTIVITY = 8'h1;
  // Its partner is to send every second.
  localparam logic [7:0] LACP_STATE_TIMEOUT = 8'h2;
  // It can be one of several.
  localparam logic [7:0] LACP_STATE_AGGREGATION = 8'h4;
  // It is in the aggregation that it belongs to.
  localparam logic [7:0] LACP_STATE_SYNCHRONIZATION = 8'h8;
  // It takes frames.
  localparam logic [7:0] LACP_STATE_COLLECTING = 8'h10;
  // It sends frames.
  localparam logic [7:0] LACP_STATE_DISTRIBUTING = 8'h20;
  // What it knows of its partner was set, not received.
  localparam logic [7:0] LACP_STATE_DEFAULTED = 8'h40;
  // Its partner has not been heard of in time.
  localparam logic [7:0] LACP_STATE_EXPIRED = 8'h80;

  // What the card can do.
  // Reliable connections.
  localparam logic [63:0] FEATURE_SET_RC = 64'h1;
  // Unreliable connections.
  localparam logic [63:0] FEATURE_SET_UC = 64'h2;
  // Unreliable datagrams.
  localparam logic [63:0] FEATURE_SET_UD = 64'h4;
  // Raw packet QPs.
  localparam logic [63:0] FEATURE_SET_RAW_ETH = 64'h8;
  // Shared receive queues.
  localparam logic [63:0] FEATURE_SET_SRQ = 64'h10;
  // CMP_SWAP and FETCH_ADD.
  localparam logic [63:0] FEATURE_SET_ATOMICS = 64'h20;
  // Memory windows of type 1.
  localparam logic [63:0] FEATURE_SET_MW_TYPE1 = 64'h40;
  // Memory windows of type 2.
  localparam logic [63:0] FEATURE_SET_MW_TYPE2 = 64'h80;
  // LOCAL_INV and SEND_WITH_INV.
  localparam logic [63:0] FEATURE_SET_INVALIDATE = 64'h100;
  // Multicast groups.
  localparam logic [63:0] FEATURE_SET_MULTICAST = 64'h200;
  // Inline data.
  localparam logic [63:0] FEATURE_SET_INLINE = 64'h400;
  // Push window.
  localparam logic [63:0] FEATURE_SET_PUSH = 64'h800;
  // Memory registrations of one DMA range.
  localparam logic [63:0] FEATURE_SET_DIRECT_MR = 64'h1000;
  // Memory registrations by page list.
  localparam logic [63:0] FEATURE_SET_PAGE_LIST_MR = 64'h2000;
  // RESIZE_CQ.
  localparam logic [63:0] FEATURE_SET_RESIZE_CQ = 64'h4000;
  // Checksums of frames: filled in, and checked (RAW_ETH, WQ).
  localparam logic [63:0] FEATURE_SET_CHECKSUM = 64'h8000;
  // VLAN insertion and removal.
  localparam logic [63:0] FEATURE_SET_VLAN = 64'h10000;
  // RoCE v2 over IPv4.
  localparam logic [63:0] FEATURE_SET_IPV4 = 64'h20000;
  // RoCE v2 over IPv6.
  localparam logic [63:0] FEATURE_SET_IPV6 = 64'h40000;
  // Timestamps in the CQEs of CQs that ask for them.
  localparam logic [63:0] FEATURE_SET_TIMESTAMP = 64'h80000;
  // Several event queues with a vector each.
  localparam logic [63:0] FEATURE_SET_EVENT_VECTORS = 64'h100000;
  // Congestion notification (ECN, CNP).
  localparam logic [63:0] FEATURE_SET_CONGESTION = 64'h200000;
  // Pause frames: SET_PORT of `rx_pause` and `tx_pause`.
  localparam logic [63:0] FEATURE_SET_PAUSE = 64'h400000;
  // QUERY_MW.
  localparam logic [63:0] FEATURE_SET_QUERY_MW = 64'h800000;
  // SET_PORT.
  localparam logic [63:0] FEATURE_SET_SET_PORT = 64'h1000000;
  // Memory registrations of no memory.
  localparam logic [63:0] FEATURE_SET_NULL_MR = 64'h2000000;
  // MODIFY_MR.
  localparam logic [63:0] FEATURE_SET_MODIFY_MR = 64'h4000000;
  // Moderation of the events of a completion queue.
  localparam logic [63:0] FEATURE_SET_MODERATION = 64'h8000000;
  // Memory registrations that find their memory when it is accessed.
  localparam logic [63:0] FEATURE_SET_ON_DEMAND = 64'h10000000;
  // Memory of the card's own, of MEMORY bytes.
  localparam logic [63:0] FEATURE_SET_ON_CARD_MEMORY = 64'h20000000;
  // Extended reliable connections.
  localparam logic [63:0] FEATURE_SET_XRC = 64'h40000000;
  // Flow rules: CREATE_FLOW and DESTROY_FLOW.
  localparam logic [63:0] FEATURE_SET_FLOW = 64'h80000000;
  // Receive work queues, indirection tables, RX-hash QPs: CREATE_TABLE, MODIFY_TABLE, DESTROY_TABLE and QUERY_ETHERNET.
  localparam logic [63:0] FEATURE_SET_RSS = 64'h100000000;
  // Flow rules that drop frames, and that ask for VLAN tags: `drop` and `tags` of FlowContext.
  localparam logic [63:0] FEATURE_SET_FLOW_DROP = 64'h200000000;
  // MODIFY_QP changes whether a receive work queue strips VLAN tags.
  localparam logic [63:0] FEATURE_SET_STRIP_VLAN = 64'h400000000;
  // RAW_TSO: the card cuts bytes of TCP into frames.
  localparam logic [63:0] FEATURE_SET_TSO = 64'h800000000;
  // Received frames with their check sequence (RAW_ETH, WQ).
  localparam logic [63:0] FEATURE_SET_SCATTER_FCS = 64'h1000000000;
  // Completions of frames say what kind they are: `frame_kind` of Cqe.
  localparam logic [63:0] FEATURE_SET_FRAME_KIND = 64'h2000000000;
  // Flow rules that mark frames: `marked` and `mark` of FlowContext and Cqe.
  localparam logic [63:0] FEATURE_SET_FLOW_MARK = 64'h4000000000;
  // Flow rules that count frames: `counted` of FlowContext, and QUERY_FLOW.
  localparam logic [63:0] FEATURE_SET_FLOW_COUNT = 64'h8000000000;
  // The ports can be one: SET_LAG and QUERY_LAG. The card has one port then, the first, and answers QUERY_CARD so.
  localparam logic [63:0] FEATURE_SET_LAG = 64'h10000000000;
  // Flow rules that go by a table of VLANs: `by_vlan` of FlowContext, and SET_VLAN.
  localparam logic [63:0] FEATURE_SET_VLAN_FILTER = 64'h20000000000;
  // Packet pacing: MODIFY_QP of RATE_LIMIT (RAW_ETH).
  localparam logic [63:0] FEATURE_SET_PACING = 64'h40000000000;
  // Ports can be disabled: SET_PORT of `enabled`.
  localparam logic [63:0] FEATURE_SET_PORT_ENABLE = 64'h80000000000;

  // Code in ERROR_CAUSE and in the event DEVICE_FATAL.
  typedef enum logic [15:0] {
    ERROR_CAUSE_NONE = 16'h0, // The card is well.
    ERROR_CAUSE_DMA_READ = 16'h1, // A DMA read was refused or timed out.
    ERROR_CAUSE_DMA_WRITE = 16'h2, // A DMA write was refused.
    ERROR_CAUSE_ADMIN_RING = 16'h10, // A base address is not aligned, or a ring's size is not allowed.
    ERROR_CAUSE_ADMIN_DOORBELL = 16'h11, // The doorbell names an index outside the ring.
    ERROR_CAUSE_ADMIN_OVERRUN = 16'h12, // The reply ring is full: software does not consume.
    ERROR_CAUSE_EQ_OVERRUN = 16'h20, // An event queue is full: software does not consume.
    ERROR_CAUSE_CONTEXT = 16'h30, // A context in the card's memory does not make sense.
    ERROR_CAUSE_MEMORY = 16'h31, // The card's memory has an error that cannot be corrected.
    ERROR_CAUSE_TABLE = 16'h32, // A table of the card is used up where that must not be.
    ERROR_CAUSE_WATCHDOG = 16'h40, // The card's own watchdog ran out.
    ERROR_CAUSE_TEMPERATURE = 16'h41, // Too hot.
    ERROR_CAUSE_RESET = 16'h42, // A reset did not finish.
    ERROR_CAUSE_INJECTED = 16'h50, // Software asked for an error to test itself.
    ERROR_CAUSE_INTERNAL = 16'hff // Anything else.
  } error_cause_e;

  // State of a port; the numbers are those of `ibv_port_state`.
  typedef enum logic [7:0] {
    LINK_STATE_DOWN = 8'h1, // No link.
    LINK_STATE_INIT = 8'h2, // Link, not configured.
    LINK_STATE_ARMED = 8'h3, // Configured, no traffic yet.
    LINK_STATE_ACTIVE = 8'h4 // The link is up.
  } link_state_e;

  // State of the cable; the numbers are those of IB PortInfo.
  typedef enum logic [7:0] {
    PHYS_STATE_SLEEP = 8'h1, // Asleep.
    PHYS_STATE_POLLING = 8'h2, // Waits for a link partner.
    PHYS_STATE_DISABLED = 8'h3, // Switched off.
    PHYS_STATE_TRAINING = 8'h4, // Adapts to the cable.
    PHYS_STATE_LINK_UP = 8'h5, // Up.
    PHYS_STATE_RECOVERY = 8'h6 // Recovers from an error.
  } phys_state_e;

  // What SET_PORT changes (`param0`).
  // `enabled` (PORT_ENABLE).
  localparam logic [31:0] PORT_ATTR_MASK_ENABLED = 32'h1;
  // `mtu_active`.
  localparam logic [31:0] PORT_ATTR_MASK_MTU = 32'h2;
  // The GID at `gid_index`.
  localparam logic [31:0] PORT_ATTR_MASK_GID = 32'h4;
  // `rx_pause` and `tx_pause` (PAUSE).
  localparam logic [31:0] PORT_ATTR_MASK_PAUSE = 32'h8;

  // Which XRC domain OPEN_XRCD gives; with neither, the one that has the key has to exist.
  // A new one if none has the key.
  localparam logic [31:0] XRCD_FLAGS_CREATE = 32'h1;
  // Only a new one.
  localparam logic [31:0] XRCD_FLAGS_EXCLUSIVE = 32'h2;

  // What MODIFY_MR changes (`param0`); the numbers of `ibv_rereg_mr_flags`.
  // Where the memory is: all fields that no other bit names.
  localparam logic [31:0] MR_ATTR_MASK_TRANSLATION = 32'h1;
  // `pd`.
  localparam logic [31:0] MR_ATTR_MASK_PD = 32'h2;
  // `access`.
  localparam logic [31:0] MR_ATTR_MASK_ACCESS = 32'h4;

  // Which attributes MODIFY_QP changes; the numbers of `ibv_qp_attr_mask`.
  // `state`, in `param1`.
  localparam logic [31:0] QP_ATTR_MASK_STATE = 32'h1;
  // The state that the QP must be in, in `param2`.
  localparam logic [31:0] QP_ATTR_MASK_CUR_STATE = 32'h2;
  // Event when the send queue has drained.
  localparam logic [31:0] QP_ATTR_MASK_EN_SQD_ASYNC_NOTIFY = 32'h4;
  // `access`.
  localparam logic [31:0] QP_ATTR_MASK_ACCESS_FLAGS = 32'h8;
  // `pkey_index`.
  localparam logic [31:0] QP_ATTR_MASK_PKEY_INDEX = 32'h10;
  // `port`.
  localparam logic [31:0] QP_ATTR_MASK_PORT = 32'h20;
  // `qkey`.
  localparam logic [31:0] QP_ATTR_MASK_QKEY = 32'h40;
  // The address vector.
  localparam logic [31:0] QP_ATTR_MASK_AV = 32'h80;
  // `mtu`.
  localparam logic [31:0] QP_ATTR_MASK_PATH_MTU = 32'h100;
  // `timeout`.
  localparam logic [31:0] QP_ATTR_MASK_TIMEOUT = 32'h200;
  // `retry_cnt`.
  localparam logic [31:0] QP_ATTR_MASK_RETRY_CNT = 32'h400;
  // `rnr_retry`.
  localparam logic [31:0] QP_ATTR_MASK_RNR_RETRY = 32'h800;
  // `rq_psn`.
  localparam logic [31:0] QP_ATTR_MASK_RQ_PSN = 32'h1000;
  // `max_rd_atomic`.
  localparam logic [31:0] QP_ATTR_MASK_MAX_QP_RD_ATOMIC = 32'h2000;
  // Alternate path: not supported.
  localparam logic [31:0] QP_ATTR_MASK_ALT_PATH = 32'h4000;
  // `min_rnr_timer`.
  localparam logic [31:0] QP_ATTR_MASK_MIN_RNR_TIMER = 32'h8000;
  // `sq_psn`.
  localparam logic [31:0] QP_ATTR_MASK_SQ_PSN = 32'h10000;
  // `max_dest_rd_atomic`.
  localparam logic [31:0] QP_ATTR_MASK_MAX_DEST_RD_ATOMIC = 32'h20000;
  // Path migration: not supported.
  localparam logic [31:0] QP_ATTR_MASK_PATH_MIG_STATE = 32'h40000;
  // Resizing the queues: not supported.
  localparam logic [31:0] QP_ATTR_MASK_CAP = 32'h80000;
  // `dest_qpn`.
  localparam logic [31:0] QP_ATTR_MASK_DEST_QPN = 32'h100000;
  // `rate_limit`, `max_burst` and `typical_packet` (PACING).
  localparam logic [31:0] QP_ATTR_MASK_RATE_LIMIT = 32'h2000000;
  // `strip_vlan` of a receive work queue, alone: from the next frame on. Not one of verbs.
  localparam logic [31:0] QP_ATTR_MASK_STRIP_VLAN = 32'h80000000;

  // Path MTU; the numbers are those of `ibv_mtu`.
  typedef enum logic [7:0] {
    MTU_MTU_256 = 8'h1, // 256 bytes.
    MTU_MTU_512 = 8'h2, // 512 bytes.
    MTU_MTU_1024 = 8'h3, // 1024 bytes.
    MTU_MTU_2048 = 8'h4, // 2048 bytes.
    MTU_MTU_4096 = 8'h5 // 4096 bytes.
  } mtu_e;


  // ---- Registers and doorbells with fields ----

  // What PCI configuration space says too.
  typedef struct packed {
    logic [15:0] device; // PCI device, 0xf10a.
    logic [15:0] vendor; // PCI vendor, 0x1bd4.
  } id_t;
  localparam int unsigned ID_BITS = 32;
  localparam int unsigned ID_VENDOR_LSB = 0;
  localparam int unsigned ID_VENDOR_WIDTH = 16;
  localparam int unsigned ID_DEVICE_LSB = 16;
  localparam int unsigned ID_DEVICE_WIDTH = 16;

  // Version of this definition.
  typedef struct packed {
    logic [15:0] major; // Software refuses one that it does not know.
    logic [15:0] minor; // A higher one only adds.
  } version_t;
  localparam int unsigned VERSION_BITS = 32;
  localparam int unsigned VERSION_MINOR_LSB = 0;
  localparam int unsigned VERSION_MINOR_WIDTH = 16;
  localparam int unsigned VERSION_MAJOR_LSB = 16;
  localparam int unsigned VERSION_MAJOR_WIDTH = 16;

  // What the card can do.
  typedef struct packed {
    logic [63:0] set; // The features. Values: FeatureSet.
  } features_t;
  localparam int unsigned FEATURES_BITS = 64;
  localparam int unsigned FEATURES_SET_LSB = 0;
  localparam int unsigned FEATURES_SET_WIDTH = 64;

  // Which function of the card this is.
  typedef struct packed {
    logic [15:0] card; // Number of the card in its machine or segment.
    logic [15:0] index; // Number of the function.
  } function_t;
  localparam int unsigned FUNCTION_BITS = 32;
  localparam int unsigned FUNCTION_INDEX_LSB = 0;
  localparam int unsigned FUNCTION_INDEX_WIDTH = 16;
  localparam int unsigned FUNCTION_CARD_LSB = 16;
  localparam int unsigned FUNCTION_CARD_WIDTH = 16;

  // What software wants of the function.
  typedef struct packed {
    logic [29:0] reserved_2;
    logic reset; // Starts a reset; reads 1 until the reset is over.
    logic enable; // The function works: it takes commands and doorbells.
  } control_t;
  localparam int unsigned CONTROL_BITS = 32;
  localparam int unsigned CONTROL_ENABLE_LSB = 0;
  localparam int unsigned CONTROL_ENABLE_WIDTH = 1;
  localparam int unsigned CONTROL_RESET_LSB = 1;
  localparam int unsigned CONTROL_RESET_WIDTH = 1;

  // The state of the function.
  typedef struct packed {
    logic [28:0] reserved_3;
    logic error; // Failed; only a reset helps. ERROR_CAUSE says why.
    logic resetting; // A reset is in progress.
    logic ready; // Enabled, and the admin queue runs.
  } status_t;
  localparam int unsigned STATUS_BITS = 32;
  localparam int unsigned STATUS_READY_LSB = 0;
  localparam int unsigned STATUS_READY_WIDTH = 1;
  localparam int unsigned STATUS_RESETTING_LSB = 1;
  localparam int unsigned STATUS_RESETTING_WIDTH = 1;
  localparam int unsigned STATUS_ERROR_LSB = 2;
  localparam int unsigned STATUS_ERROR_WIDTH = 1;

  // Health of the card.
  typedef struct packed {
    logic [15:0] heartbeat; // Counts on while the card works.
    logic [7:0] temperature; // Temperature in degrees Celsius; 0 where the card has no sensor.
    logic [0:0] reserved_7;
    logic hot; // Too hot.
    logic memory_corrected; // The card's memory had an error that was corrected.
    logic cq_overrun; // A completion queue was full since the last reset.
    logic eq_overrun; // An event queue was full since the last reset.
    logic dma_error; // A DMA access failed since the last reset.
    logic admin_stalled; // The admin queue is stalled.
    logic fatal; // Failed; only a reset helps.
  } health_t;
  localparam int unsigned HEALTH_BITS = 32;
  localparam int unsigned HEALTH_FATAL_LSB = 0;
  localparam int unsigned HEALTH_FATAL_WIDTH = 1;
  localparam int unsigned HEALTH_ADMIN_STALLED_LSB = 1;
  localparam int unsigned HEALTH_ADMIN_STALLED_WIDTH = 1;
  localparam int unsigned HEALTH_DMA_ERROR_LSB = 2;
  localparam int unsigned HEALTH_DMA_ERROR_WIDTH = 1;
  localparam int unsigned HEALTH_EQ_OVERRUN_LSB = 3;
  localparam int unsigned HEALTH_EQ_OVERRUN_WIDTH = 1;
  localparam int unsigned HEALTH_CQ_OVERRUN_LSB = 4;
  localparam int unsigned HEALTH_CQ_OVERRUN_WIDTH = 1;
  localparam int unsigned HEALTH_MEMORY_CORRECTED_LSB = 5;
  localparam int unsigned HEALTH_MEMORY_CORRECTED_WIDTH = 1;
  localparam int unsigned HEALTH_HOT_LSB = 6;
  localparam int unsigned HEALTH_HOT_WIDTH = 1;
  localparam int unsigned HEALTH_TEMPERATURE_LSB = 8;
  localparam int unsigned HEALTH_TEMPERATURE_WIDTH = 8;
  localparam int unsigned HEALTH_HEARTBEAT_LSB = 16;
  localparam int unsigned HEALTH_HEARTBEAT_WIDTH = 16;

  // Why the function failed; kept until the next reset.
  typedef struct packed {
    logic [15:0] detail; // More, by code: the number of the queue or object.
    error_cause_e code; // The code. Values: ErrorCause.
  } cause_t;
  localparam int unsigned CAUSE_BITS = 32;
  localparam int unsigned CAUSE_CODE_LSB = 0;
  localparam int unsigned CAUSE_CODE_WIDTH = 16;
  localparam int unsigned CAUSE_DETAIL_LSB = 16;
  localparam int unsigned CAUSE_DETAIL_WIDTH = 16;

  // The link of a port.
  typedef struct packed {
    logic [15:0] changes; // Number of link changes.
    logic [3:0] reserved_12;
    logic [3:0] phys; // State of the cable. Values: PhysState.
    logic [3:0] state; // State of the port. Values: LinkState.
    logic tx_pause; // The port asks senders of whole frames to stop while receives are missing (PAUSE).
    logic rx_pause; // The port stops sending whole frames while a receiver asks for that (PAUSE).
    logic module_; // A module is in the cage.
    logic up; // The link is up.
  } link_t;
  localparam int unsigned LINK_BITS = 32;
  localparam int unsigned LINK_UP_LSB = 0;
  localparam int unsigned LINK_UP_WIDTH = 1;
  localparam int unsigned LINK_MODULE_LSB = 1;
  localparam int unsigned LINK_MODULE_WIDTH = 1;
  localparam int unsigned LINK_RX_PAUSE_LSB = 2;
  localparam int unsigned LINK_RX_PAUSE_WIDTH = 1;
  localparam int unsigned LINK_TX_PAUSE_LSB = 3;
  localparam int unsigned LINK_TX_PAUSE_WIDTH = 1;
  localparam int unsigned LINK_STATE_LSB = 4;
  localparam int unsigned LINK_STATE_WIDTH = 4;
  localparam int unsigned LINK_PHYS_LSB = 8;
  localparam int unsigned LINK_PHYS_WIDTH = 4;
  localparam int unsigned LINK_CHANGES_LSB = 16;
  localparam int unsigned LINK_CHANGES_WIDTH = 16;

  // What an entry of the GID table is.
  typedef struct packed {
    logic [15:0] reserved_16;
    gid_type_e kind; // Its kind. Values: GidType.
    logic [6:0] reserved_1;
    logic valid; // The entry may be used.
  } gid_attr_t;
  localparam int unsigned GID_ATTR_BITS = 32;
  localparam int unsigned GID_ATTR_VALID_LSB = 0;
  localparam int unsigned GID_ATTR_VALID_WIDTH = 1;
  localparam int unsigned GID_ATTR_KIND_LSB = 8;
  localparam int unsigned GID_ATTR_KIND_WIDTH = 8;

  // The VLAN of an entry of the GID table.
  typedef struct packed {
    logic [14:0] reserved_17;
    logic present; // `id` is used.
    logic [3:0] reserved_12;
    logic [11:0] id; // VLAN number.
  } gid_vlan_t;
  localparam int unsigned GID_VLAN_BITS = 32;
  localparam int unsigned GID_VLAN_ID_LSB = 0;
  localparam int unsigned GID_VLAN_ID_WIDTH = 12;
  localparam int unsigned GID_VLAN_PRESENT_LSB = 16;
  localparam int unsigned GID_VLAN_PRESENT_WIDTH = 1;

  // Send queue doorbell: WQEs up to `index` are ready.
  typedef struct packed {
    logic [31:0] index; // Running block index after the last WQE.
    logic [1:0] reserved_30;
    logic [2:0] blocks; // Blocks of the pushed WQE, with `pushed`; 0 means 8.
    logic [1:0] slot; // Slot of the push window, with `pushed`.
    logic pushed; // The last WQE is also in slot `slot` of the page's push window.
    logic [23:0] qpn; // The QP.
  } sq_doorbell_t;
  localparam int unsigned SQ_DOORBELL_BITS = 64;
  localparam int unsigned SQ_DOORBELL_QPN_LSB = 0;
  localparam int unsigned SQ_DOORBELL_QPN_WIDTH = 24;
  localparam int unsigned SQ_DOORBELL_PUSHED_LSB = 24;
  localparam int unsigned SQ_DOORBELL_PUSHED_WIDTH = 1;
  localparam int unsigned SQ_DOORBELL_SLOT_LSB = 25;
  localparam int unsigned SQ_DOORBELL_SLOT_WIDTH = 2;
  localparam int unsigned SQ_DOORBELL_BLOCKS_LSB = 27;
  localparam int unsigned SQ_DOORBELL_BLOCKS_WIDTH = 3;
  localparam int unsigned SQ_DOORBELL_INDEX_LSB = 32;
  localparam int unsigned SQ_DOORBELL_INDEX_WIDTH = 32;

  // Receive queue doorbell: WQEs up to `index` are ready.
  typedef struct packed {
    logic [31:0] index; // Running index after the last WQE.
    logic [7:0] reserved_24;
    logic [23:0] qpn; // The QP.
  } rq_doorbell_t;
  localparam int unsigned RQ_DOORBELL_BITS = 64;
  localparam int unsigned RQ_DOORBELL_QPN_LSB = 0;
  localparam int unsigned RQ_DOORBELL_QPN_WIDTH = 24;
  localparam int unsigned RQ_DOORBELL_INDEX_LSB = 32;
  localparam int unsigned RQ_DOORBELL_INDEX_WIDTH = 32;

  // Shared receive queue doorbell: WQEs up to `index` are ready.
  typedef struct packed {
    logic [31:0] index; // Running index after the last WQE.
    logic [7:0] reserved_24;
    logic [23:0] srqn; // The SRQ.
  } srq_doorbell_t;
  localparam int unsigned SRQ_DOORBELL_BITS = 64;
  localparam int unsigned SRQ_DOORBELL_SRQN_LSB = 0;
  localparam int unsigned SRQ_DOORBELL_SRQN_WIDTH = 24;
  localparam int unsigned SRQ_DOORBELL_INDEX_LSB = 32;
  localparam int unsigned SRQ_DOORBELL_INDEX_WIDTH = 32;

  // Completion queue arm: the next CQE at or after `index` raises an event, or one that is there already if no event was raised for it or a later one.
  typedef struct packed {
    logic [31:0] index; // Consumer index: CQEs before it were seen.
    logic [6:0] reserved_25;
    logic solicited_only; // Only for a solicited CQE or one in error.
    logic [23:0] cqn; // The CQ.
  } cq_arm_t;
  localparam int unsigned CQ_ARM_BITS = 64;
  localparam int unsigned CQ_ARM_CQN_LSB = 0;
  localparam int unsigned CQ_ARM_CQN_WIDTH = 24;
  localparam int unsigned CQ_ARM_SOLICITED_ONLY_LSB = 24;
  localparam int unsigned CQ_ARM_SOLICITED_ONLY_WIDTH = 1;
  localparam int unsigned CQ_ARM_INDEX_LSB = 32;
  localparam int unsigned CQ_ARM_INDEX_WIDTH = 32;


  // ---- Queue entries, commands and contexts in memory ----

  // Control segment: the first 16 bytes of every send WQE.
  typedef struct packed {
    logic [31:0] imm; // Immediate data (sent in the order of these bytes), or the key to invalidate, or the window's new R_Key.
    logic [31:0] length; // Bytes of the message; of a RAW_TSO without the headers.
    logic [15:0] vlan_tci; // Tag control information of the VLAN tag to insert.
    logic [15:0] index; // Block index of this WQE, modulo 65536.
    logic [7:0] num_sge; // Number of SGEs; 0 with inline data.
    logic [0:0] reserved_23;
    logic vlan_insert; // Insert an 802.1Q tag with `vlan_tci` (RAW_ETH, RAW_TSO).
    logic l4_csum; // Fill in the TCP or UDP checksum (RAW_ETH).
    logic ip_csum; // Fill in the IPv4 header checksum (RAW_ETH).
    logic inline; // The data is in the WQE itself.
    logic fence; // Wait for all earlier READs and atomics of the queue.
    logic solicited; // Set the solicited event bit of the last packet.
    logic signaled; // Make a CQE also when the request succeeds.
    logic [7:0] ds; // Size of the WQE in units of 16 bytes, this segment included.
    wqe_opcode_e opcode; // What to do. Values: WqeOpcode.
  } wqe_ctrl_t;
  localparam int unsigned WQE_CTRL_BITS = 128;
  localparam int unsigned WQE_CTRL_OPCODE_LSB = 0;
  localparam int unsigned WQE_CTRL_OPCODE_WIDTH = 8;
  localparam int unsigned WQE_CTRL_DS_LSB = 8;
  localparam int unsigned WQE_CTRL_DS_WIDTH = 8;
  localparam int unsigned WQE_CTRL_SIGNALED_LSB = 16;
  localparam int unsigned WQE_CTRL_SIGNALED_WIDTH = 1;
  localparam int unsigned WQE_CTRL_SOLICITED_LSB = 17;
  localparam int unsigned WQE_CTRL_SOLICITED_WIDTH = 1;
  localparam int unsigned WQE_CTRL_FENCE_LSB = 18;
  localparam int unsigned WQE_CTRL_FENCE_WIDTH = 1;
  localparam int unsigned WQE_CTRL_INLINE_LSB = 19;
  localparam int unsigned WQE_CTRL_INLINE_WIDTH = 1;
  localparam int unsigned WQE_CTRL_IP_CSUM_LSB = 20;
  localparam int unsigned WQE_CTRL_IP_CSUM_WIDTH = 1;
  localparam int unsigned WQE_CTRL_L4_CSUM_LSB = 21;
  localparam int unsigned WQE_CTRL_L4_CSUM_WIDTH = 1;
  localparam int unsigned WQE_CTRL_VLAN_INSERT_LSB = 22;
  localparam int unsigned WQE_CTRL_VLAN_INSERT_WIDTH = 1;
  localparam int unsigned WQE_CTRL_NUM_SGE_LSB = 24;
  localparam int unsigned WQE_CTRL_NUM_SGE_WIDTH = 8;
  localparam int unsigned WQE_CTRL_INDEX_LSB = 32;
  localparam int unsigned WQE_CTRL_INDEX_WIDTH = 16;
  localparam int unsigned WQE_CTRL_VLAN_TCI_LSB = 48;
  localparam int unsigned WQE_CTRL_VLAN_TCI_WIDTH = 16;
  localparam int unsigned WQE_CTRL_LENGTH_LSB = 64;
  localparam int unsigned WQE_CTRL_LENGTH_WIDTH = 32;
  localparam int unsigned WQE_CTRL_IMM_LSB = 96;
  localparam int unsigned WQE_CTRL_IMM_WIDTH = 32;

  // Remote segment: where READ, WRITE and atomics go, and on XRC everything.
  typedef struct packed {
    logic [7:0] reserved_120;
    logic [23:0] srqn; // The peer's SRQ (XRC).
    logic [31:0] rkey; // The peer's key.
    logic [63:0] remote_addr; // Address at the peer.
  } wqe_remote_t;
  localparam int unsigned WQE_REMOTE_BITS = 128;
  localparam int unsigned WQE_REMOTE_REMOTE_ADDR_LSB = 0;
  localparam int unsigned WQE_REMOTE_REMOTE_ADDR_WIDTH = 64;
  localparam int unsigned WQE_REMOTE_RKEY_LSB = 64;
  localparam int unsigned WQE_REMOTE_RKEY_WIDTH = 32;
  localparam int unsigned WQE_REMOTE_SRQN_LSB = 96;
  localparam int unsigned WQE_REMOTE_SRQN_WIDTH = 24;

  // Atomic segment: the operands.
  typedef struct packed {
    logic [63:0] swap; // What to store where the comparison holds.
    logic [63:0] compare_add; // What to compare with (CMP_SWAP) or to add (FETCH_ADD).
  } wqe_atomic_t;
  localparam int unsigned WQE_ATOMIC_BITS = 128;
  localparam int unsigned WQE_ATOMIC_COMPARE_ADD_LSB = 0;
  localparam int unsigned WQE_ATOMIC_COMPARE_ADD_WIDTH = 64;
  localparam int unsigned WQE_ATOMIC_SWAP_LSB = 64;
  localparam int unsigned WQE_ATOMIC_SWAP_WIDTH = 64;

  // Address segment: the address vector of a UD message.
  typedef struct packed {
    logic [23:0] reserved_360;
    logic [7:0] sl; // Service level, 0 to 7: the priority in the VLAN of the source GID.
    logic [7:0] static_rate; // Static rate; 0 is the port's speed.
    logic [6:0] reserved_337;
    logic vlan_present; // `vlan` is to be used, instead of the VLAN of the source GID with `sl`.
    logic [15:0] vlan; // VLAN tag control information.
    logic [15:0] udp_sport; // UDP source port; 0 lets the card choose.
    logic [7:0] hop_limit; // Hop limit.
    logic [7:0] traffic_class; // Traffic class.
    logic [31:0] flow_label; // Flow label.
    logic [31:0] qkey; // Q_Key to send; with the top bit set the QP's own is sent.
    logic [31:0] dest_qpn; // Destination QP.
    logic [7:0] port; // Port, counted from 1.
    logic [7:0] sgid_index; // Index of the source GID.
    logic [47:0] dmac; // Destination Ethernet address. The first byte of the wire is the lowest.
    logic [127:0] dgid; // Destination GID. The first byte of the wire is the lowest.
  } wqe_address_t;
  localparam int unsigned WQE_ADDRESS_BITS = 384;
  localparam int unsigned WQE_ADDRESS_DGID_LSB = 0;
  localparam int unsigned WQE_ADDRESS_DGID_WIDTH = 128;
  localparam int unsigned WQE_ADDRESS_DMAC_LSB = 128;
  localparam int unsigned WQE_ADDRESS_DMAC_WIDTH = 48;
  localparam int unsigned WQE_ADDRESS_SGID_INDEX_LSB = 176;
  localparam int unsigned WQE_ADDRESS_SGID_INDEX_WIDTH = 8;
  localparam int unsigned WQE_ADDRESS_PORT_LSB = 184;
  localparam int unsigned WQE_ADDRESS_PORT_WIDTH = 8;
  localparam int unsigned WQE_ADDRESS_DEST_QPN_LSB = 192;
  localparam int unsigned WQE_ADDRESS_DEST_QPN_WIDTH = 32;
  localparam int unsigned WQE_ADDRESS_QKEY_LSB = 224;
  localparam int unsigned WQE_ADDRESS_QKEY_WIDTH = 32;
  localparam int unsigned WQE_ADDRESS_FLOW_LABEL_LSB = 256;
  localparam int unsigned WQE_ADDRESS_FLOW_LABEL_WIDTH = 32;
  localparam int unsigned WQE_ADDRESS_TRAFFIC_CLASS_LSB = 288;
  localparam int unsigned WQE_ADDRESS_TRAFFIC_CLASS_WIDTH = 8;
  localparam int unsigned WQE_ADDRESS_HOP_LIMIT_LSB = 296;
  localparam int unsigned WQE_ADDRESS_HOP_LIMIT_WIDTH = 8;
  localparam int unsigned WQE_ADDRESS_UDP_SPORT_LSB = 304;
  localparam int unsigned WQE_ADDRESS_UDP_SPORT_WIDTH = 16;
  localparam int unsigned WQE_ADDRESS_VLAN_LSB = 320;
  localparam int unsigned WQE_ADDRESS_VLAN_WIDTH = 16;
  localparam int unsigned WQE_ADDRESS_VLAN_PRESENT_LSB = 336;
  localparam int unsigned WQE_ADDRESS_VLAN_PRESENT_WIDTH = 1;
  localparam int unsigned WQE_ADDRESS_STATIC_RATE_LSB = 344;
  localparam int unsigned WQE_ADDRESS_STATIC_RATE_WIDTH = 8;
  localparam int unsigned WQE_ADDRESS_SL_LSB = 352;
  localparam int unsigned WQE_ADDRESS_SL_WIDTH = 8;

  // Scatter/gather entry: one piece of local memory (send and receive).
  typedef struct packed {
    logic [31:0] lkey; // Key of the MR.
    logic [31:0] length; // Bytes.
    logic [63:0] addr; // Address, in the addresses of the MR.
  } wqe_sge_t;
  localparam int unsigned WQE_SGE_BITS = 128;
  localparam int unsigned WQE_SGE_ADDR_LSB = 0;
  localparam int unsigned WQE_SGE_ADDR_WIDTH = 64;
  localparam int unsigned WQE_SGE_LENGTH_LSB = 64;
  localparam int unsigned WQE_SGE_LENGTH_WIDTH = 32;
  localparam int unsigned WQE_SGE_LKEY_LSB = 96;
  localparam int unsigned WQE_SGE_LKEY_WIDTH = 32;

  // Bind segment of BIND_MW; the new R_Key is in the control segment.
  typedef struct packed {
    logic [55:0] reserved_200;
    logic [7:0] access; // Access rights of the window. Values: Access.
    logic [31:0] mw_rkey; // The window's R_Key so far.
    logic [31:0] mr_lkey; // Key of the MR.
    logic [63:0] length; // Bytes of the window; 0 unbinds.
    logic [63:0] addr; // First address of the window, in the addresses of the MR.
  } wqe_bind_t;
  localparam int unsigned WQE_BIND_BITS = 256;
  localparam int unsigned WQE_BIND_ADDR_LSB = 0;
  localparam int unsigned WQE_BIND_ADDR_WIDTH = 64;
  localparam int unsigned WQE_BIND_LENGTH_LSB = 64;
  localparam int unsigned WQE_BIND_LENGTH_WIDTH = 64;
  localparam int unsigned WQE_BIND_MR_LKEY_LSB = 128;
  localparam int unsigned WQE_BIND_MR_LKEY_WIDTH = 32;
  localparam int unsigned WQE_BIND_MW_RKEY_LSB = 160;
  localparam int unsigned WQE_BIND_MW_RKEY_WIDTH = 32;
  localparam int unsigned WQE_BIND_ACCESS_LSB = 192;
  localparam int unsigned WQE_BIND_ACCESS_WIDTH = 8;

  // Segmentation segment of RAW_TSO: what the frames begin with. The headers are those of Ethernet with at most two VLAN tags, of IPv4 that is no fragment or of IPv6 with no extension headers but options, and of TCP. In each frame the card sets the lengths and checksums of IP and TCP, adds the data before it to the sequence number, and its place among the frames to the identification of IPv4. Only the first frame has the flag CWR, and only the last FIN and PSH.
  typedef struct packed {
    logic [63:0] header15; // Bytes 120 to 127.
    logic [63:0] header14; // Bytes 112 to 119.
    logic [63:0] header13; // Bytes 104 to 111.
    logic [63:0] header12; // Bytes 96 to 103.
    logic [63:0] header11; // Bytes 88 to 95.
    logic [63:0] header10; // Bytes 80 to 87.
    logic [63:0] header9; // Bytes 72 to 79.
    logic [63:0] header8; // Bytes 64 to 71.
    logic [63:0] header7; // Bytes 56 to 63.
    logic [63:0] header6; // Bytes 48 to 55.
    logic [63:0] header5; // Bytes 40 to 47.
    logic [63:0] header4; // Bytes 32 to 39.
    logic [63:0] header3; // Bytes 24 to 31.
    logic [63:0] header2; // Bytes 16 to 23.
    logic [63:0] header1; // Bytes 8 to 15.
    logic [63:0] header0; // Bytes 0 to 7 of the headers, the first in the lowest byte.
    logic [95:0] reserved_32;
    logic [15:0] header_length; // Bytes of the headers.
    logic [15:0] mss; // Most bytes of data in a frame, at least 1.
  } wqe_tso_t;
  localparam int unsigned WQE_TSO_BITS = 1152;
  localparam int unsigned WQE_TSO_MSS_LSB = 0;
  localparam int unsigned WQE_TSO_MSS_WIDTH = 16;
  localparam int unsigned WQE_TSO_HEADER_LENGTH_LSB = 16;
  localparam int unsigned WQE_TSO_HEADER_LENGTH_WIDTH = 16;
  localparam int unsigned WQE_TSO_HEADER0_LSB = 128;
  localparam int unsigned WQE_TSO_HEADER0_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER1_LSB = 192;
  localparam int unsigned WQE_TSO_HEADER1_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER2_LSB = 256;
  localparam int unsigned WQE_TSO_HEADER2_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER3_LSB = 320;
  localparam int unsigned WQE_TSO_HEADER3_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER4_LSB = 384;
  localparam int unsigned WQE_TSO_HEADER4_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER5_LSB = 448;
  localparam int unsigned WQE_TSO_HEADER5_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER6_LSB = 512;
  localparam int unsigned WQE_TSO_HEADER6_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER7_LSB = 576;
  localparam int unsigned WQE_TSO_HEADER7_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER8_LSB = 640;
  localparam int unsigned WQE_TSO_HEADER8_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER9_LSB = 704;
  localparam int unsigned WQE_TSO_HEADER9_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER10_LSB = 768;
  localparam int unsigned WQE_TSO_HEADER10_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER11_LSB = 832;
  localparam int unsigned WQE_TSO_HEADER11_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER12_LSB = 896;
  localparam int unsigned WQE_TSO_HEADER12_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER13_LSB = 960;
  localparam int unsigned WQE_TSO_HEADER13_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER14_LSB = 1024;
  localparam int unsigned WQE_TSO_HEADER14_WIDTH = 64;
  localparam int unsigned WQE_TSO_HEADER15_LSB = 1088;
  localparam int unsigned WQE_TSO_HEADER15_WIDTH = 64;

  // Head of a receive WQE; `RecvHead::num_sge` entries `WqeSge` follow.
  typedef struct packed {
    logic [31:0] reserved_96;
    logic [31:0] length; // Bytes of all SGEs.
    logic [31:0] index; // Running index of this WQE, or its slot in an SRQ.
    logic [15:0] next; // Next slot of the SRQ's list (SRQ only).
    logic [7:0] reserved_8;
    logic [7:0] num_sge; // Number of SGEs.
  } recv_head_t;
  localparam int unsigned RECV_HEAD_BITS = 128;
  localparam int unsigned RECV_HEAD_NUM_SGE_LSB = 0;
  localparam int unsigned RECV_HEAD_NUM_SGE_WIDTH = 8;
  localparam int unsigned RECV_HEAD_NEXT_LSB = 16;
  localparam int unsigned RECV_HEAD_NEXT_WIDTH = 16;
  localparam int unsigned RECV_HEAD_INDEX_LSB = 32;
  localparam int unsigned RECV_HEAD_INDEX_WIDTH = 32;
  localparam int unsigned RECV_HEAD_LENGTH_LSB = 64;
  localparam int unsigned RECV_HEAD_LENGTH_WIDTH = 32;

  // Completion queue entry. The card writes the phase bit last.
  typedef struct packed {
    logic [6:0] reserved_505;
    logic phase; // 1 on the first lap of the ring, then it toggles with each lap.
    logic [87:0] reserved_416;
    logic [31:0] mark; // Mark of a flow rule.
    logic [7:0] reserved_376;
    logic [23:0] srqn; // Receives of XRC: the SRQ that `wqe_index` is a slot of; 0 for all others.
    logic [31:0] generation; // Counts the uses of the QP number, so that a CQE of an earlier QP is recognised.
    logic [14:0] reserved_305;
    logic marked; // `mark` holds the mark of the flow rule by which the frame came.
    logic [15:0] vlan_tci; // VLAN tag that was removed.
    logic [15:0] pkey_index; // Index of the P_Key.
    frame_kind_e frame_kind; // Kind of the frame (raw packet QP, WQ). Values: FrameKind.
    logic [7:0] sl; // Receives of UD: the priority of the packet's 802.1Q tag; without one the kind of packet, 9 for UDP over IPv6 and 10 for UDP over IPv4 (bit 3: with a UDP header; bits 0 to 2: 1 IPv6, 2 IPv4), 0 for RoCE version 1.
    logic [63:0] timestamp; // The card's time in nanoseconds, where the CQ was created `stamped`.
    syndrome_e syndrome; // Why: the card's vendor syndrome. Values: Syndrome.
    cqe_status_e status; // How it ended. Values: CqeStatus.
    cqe_opcode_e opcode; // What completed. Values: CqeOpcode.
    logic hashed; // `imm` holds the frame's hash.
    logic l4_csum_ok; // The frame is of TCP or UDP, and its checksum is right (raw packet QP, WQ).
    logic vlan; // `vlan_tci` holds the frame's tag.
    logic ip_csum_ok; // The frame is of IPv4, and the checksum of that header is right (raw packet QP, WQ).
    logic recv; // The receive side completed.
    logic inv; // `imm` holds an invalidated key.
    logic has_imm; // `imm` holds immediate data.
    logic grh; // The first 40 bytes of the buffer hold a GRH.
    logic [31:0] imm; // Immediate data in the order of the wire, or the key that the peer invalidated, or the frame's hash (RX-hash QP).
    logic [31:0] byte_len; // Bytes received, or read.
    logic [7:0] reserved_88;
    logic [23:0] srcqp; // The peer's QP (UD, XRC).
    logic [7:0] reserved_56;
    logic [23:0] qpn; // The QP.
    logic [31:0] wqe_index; // Send side: running index of the first block of the last WQE that completed. Receive side: running index of the WQE, or its slot in an SRQ.
  } cqe_t;
  localparam int unsigned CQE_BITS = 512;
  localparam int unsigned CQE_WQE_INDEX_LSB = 0;
  localparam int unsigned CQE_WQE_INDEX_WIDTH = 32;
  localparam int unsigned CQE_QPN_LSB = 32;
  localparam int unsigned CQE_QPN_WIDTH = 24;
  localparam int unsigned CQE_SRCQP_LSB = 64;
  localparam int unsigned CQE_SRCQP_WIDTH = 24;
  localparam int unsigned CQE_BYTE_LEN_LSB = 96;
  localparam int unsigned CQE_BYTE_LEN_WIDTH = 32;
  localparam int unsigned CQE_IMM_LSB = 128;
  localparam int unsigned CQE_IMM_WIDTH = 32;
  localparam int unsigned CQE_GRH_LSB = 160;
  localparam int unsigned CQE_GRH_WIDTH = 1;
  localparam int unsigned CQE_HAS_IMM_LSB = 161;
  localparam int unsigned CQE_HAS_IMM_WIDTH = 1;
  localparam int unsigned CQE_INV_LSB = 162;
  localparam int unsigned CQE_INV_WIDTH = 1;
  localparam int unsigned CQE_RECV_LSB = 163;
  localparam int unsigned CQE_RECV_WIDTH = 1;
  localparam int unsigned CQE_IP_CSUM_OK_LSB = 164;
  localparam int unsigned CQE_IP_CSUM_OK_WIDTH = 1;
  localparam int unsigned CQE_VLAN_LSB = 165;
  localparam int unsigned CQE_VLAN_WIDTH = 1;
  localparam int unsigned CQE_L4_CSUM_OK_LSB = 166;
  localparam int unsigned CQE_L4_CSUM_OK_WIDTH = 1;
  localparam int unsigned CQE_HASHED_LSB = 167;
  localparam int unsigned CQE_HASHED_WIDTH = 1;
  localparam int unsigned CQE_OPCODE_LSB = 168;
  localparam int unsigned CQE_OPCODE_WIDTH = 8;
  localparam int unsigned CQE_STATUS_LSB = 176;
  localparam int unsigned CQE_STATUS_WIDTH = 8;
  localparam int unsigned CQE_SYNDROME_LSB = 184;
  localparam int unsigned CQE_SYNDROME_WIDTH = 8;
  localparam int unsigned CQE_TIMESTAMP_LSB = 192;
  localparam int unsigned CQE_TIMESTAMP_WIDTH = 64;
  localparam int unsigned CQE_SL_LSB = 256;
  localparam int unsigned CQE_SL_WIDTH = 8;
  localparam int unsigned CQE_FRAME_KIND_LSB = 264;
  localparam int unsigned CQE_FRAME_KIND_WIDTH = 8;
  localparam int unsigned CQE_PKEY_INDEX_LSB = 272;
  localparam int unsigned CQE_PKEY_INDEX_WIDTH = 16;
  localparam int unsigned CQE_VLAN_TCI_LSB = 288;
  localparam int unsigned CQE_VLAN_TCI_WIDTH = 16;
  localparam int unsigned CQE_MARKED_LSB = 304;
  localparam int unsigned CQE_MARKED_WIDTH = 1;
  localparam int unsigned CQE_GENERATION_LSB = 320;
  localparam int unsigned CQE_GENERATION_WIDTH = 32;
  localparam int unsigned CQE_SRQN_LSB = 352;
  localparam int unsigned CQE_SRQN_WIDTH = 24;
  localparam int unsigned CQE_MARK_LSB = 384;
  localparam int unsigned CQE_MARK_WIDTH = 32;
  localparam int unsigned CQE_PHASE_LSB = 504;
  localparam int unsigned CQE_PHASE_WIDTH = 1;

  // Event queue entry. The card writes the phase bit last.
  typedef struct packed {
    logic [6:0] reserved_249;
    logic phase; // 1 on the first lap of the ring, then it toggles with each lap.
    logic [87:0] reserved_160;
    logic [31:0] data; // More, by kind.
    logic [63:0] timestamp; // The card's time in nanoseconds.
    logic [31:0] object; // CQN, QPN or SRQN.
    logic [15:0] reserved_16;
    logic [7:0] port; // Port, counted from 1; 0 where no port is meant.
    event_kind_e kind; // What happened. Values: EventKind.
  } eqe_t;
  localparam int unsigned EQE_BITS = 256;
  localparam int unsigned EQE_KIND_LSB = 0;
  localparam int unsigned EQE_KIND_WIDTH = 8;
  localparam int unsigned EQE_PORT_LSB = 8;
  localparam int unsigned EQE_PORT_WIDTH = 8;
  localparam int unsigned EQE_OBJECT_LSB = 32;
  localparam int unsigned EQE_OBJECT_WIDTH = 32;
  localparam int unsigned EQE_TIMESTAMP_LSB = 64;
  localparam int unsigned EQE_TIMESTAMP_WIDTH = 64;
  localparam int unsigned EQE_DATA_LSB = 128;
  localparam int unsigned EQE_DATA_WIDTH = 32;
  localparam int unsigned EQE_PHASE_LSB = 248;
  localparam int unsigned EQE_PHASE_WIDTH = 1;

  // Entry of the admin command ring.
  typedef struct packed {
    logic [63:0] param3; // Fourth parameter, by opcode.
    logic [63:0] param2; // Third parameter, by opcode.
    logic [63:0] param1; // Second parameter, by opcode.
    logic [63:0] param0; // First parameter, by opcode.
    logic [63:0] out_iova; // DMA address to which the card writes.
    logic [31:0] out_len; // Bytes that may be written.
    logic [31:0] in_len; // Bytes to read.
    logic [63:0] in_iova; // DMA address of the context to read.
    logic [31:0] object; // Number of the object.
    logic [15:0] tag; // Returned in the reply.
    admin_opcode_e opcode; // What to do. Values: AdminOpcode.
  } command_t;
  localparam int unsigned COMMAND_BITS = 512;
  localparam int unsigned COMMAND_OPCODE_LSB = 0;
  localparam int unsigned COMMAND_OPCODE_WIDTH = 16;
  localparam int unsigned COMMAND_TAG_LSB = 16;
  localparam int unsigned COMMAND_TAG_WIDTH = 16;
  localparam int unsigned COMMAND_OBJECT_LSB = 32;
  localparam int unsigned COMMAND_OBJECT_WIDTH = 32;
  localparam int unsigned COMMAND_IN_IOVA_LSB = 64;
  localparam int unsigned COMMAND_IN_IOVA_WIDTH = 64;
  localparam int unsigned COMMAND_IN_LEN_LSB = 128;
  localparam int unsigned COMMAND_IN_LEN_WIDTH = 32;
  localparam int unsigned COMMAND_OUT_LEN_LSB = 160;
  localparam int unsigned COMMAND_OUT_LEN_WIDTH = 32;
  localparam int unsigned COMMAND_OUT_IOVA_LSB = 192;
  localparam int unsigned COMMAND_OUT_IOVA_WIDTH = 64;
  localparam int unsigned COMMAND_PARAM0_LSB = 256;
  localparam int unsigned COMMAND_PARAM0_WIDTH = 64;
  localparam int unsigned COMMAND_PARAM1_LSB = 320;
  localparam int unsigned COMMAND_PARAM1_WIDTH = 64;
  localparam int unsigned COMMAND_PARAM2_LSB = 384;
  localparam int unsigned COMMAND_PARAM2_WIDTH = 64;
  localparam int unsigned COMMAND_PARAM3_LSB = 448;
  localparam int unsigned COMMAND_PARAM3_WIDTH = 64;

  // Entry of the admin reply ring. The card writes the phase bit last.
  typedef struct packed {
    logic [6:0] reserved_249;
    logic phase; // 1 on the first lap of the ring, then it toggles with each lap.
    logic [55:0] reserved_192;
    logic [63:0] value1; // Second value, by opcode.
    logic [63:0] value0; // First value, by opcode.
    logic [31:0] object; // Number of the object.
    syndrome_e syndrome; // Why: the card's vendor syndrome. Values: Syndrome.
    admin_status_e status; // How it ended. Values: AdminStatus.
    logic [15:0] tag; // The command's tag.
  } reply_t;
  localparam int unsigned REPLY_BITS = 256;
  localparam int unsigned REPLY_TAG_LSB = 0;
  localparam int unsigned REPLY_TAG_WIDTH = 16;
  localparam int unsigned REPLY_STATUS_LSB = 16;
  localparam int unsigned REPLY_STATUS_WIDTH = 8;
  localparam int unsigned REPLY_SYNDROME_LSB = 24;
  localparam int unsigned REPLY_SYNDROME_WIDTH = 8;
  localparam int unsigned REPLY_OBJECT_LSB = 32;
  localparam int unsigned REPLY_OBJECT_WIDTH = 32;
  localparam int unsigned REPLY_VALUE0_LSB = 64;
  localparam int unsigned REPLY_VALUE0_WIDTH = 64;
  localparam int unsigned REPLY_VALUE1_LSB = 128;
  localparam int unsigned REPLY_VALUE1_WIDTH = 64;
  localparam int unsigned REPLY_PHASE_LSB = 248;
  localparam int unsigned REPLY_PHASE_WIDTH = 1;

  // Context of a queue pair: CREATE_QP, MODIFY_QP, QUERY_QP.
  typedef struct packed {
    logic [623:0] reserved_1424;
    logic [15:0] typical_packet; // Bytes of a frame of such a burst, by which it is cut; 0 lets it have a frame more.
    logic [31:0] max_burst; // Bytes that may leave back to back, with `rate_limit`; 0 is one frame.
    logic [31:0] rate_limit; // Most that is sent, in kbit/s of frames without their check sequences; 0 is as fast as the port (RAW_PACKET).
    logic [63:0] hash_key4; // Bytes 32 to 39.
    logic [63:0] hash_key3; // Bytes 24 to 31.
    logic [63:0] hash_key2; // Bytes 16 to 23.
    logic [63:0] hash_key1; // Bytes 8 to 15.
    logic [63:0] hash_key0; // Bytes 0 to 7 of the hash key, the first in the lowest byte (RX_HASH).
    logic [23:0] reserved_1000;
    hash_function_e hash_function; // How they are hashed (RX_HASH). Values: HashFunction.
    logic [31:0] hash_fields; // Fields that are hashed (RX_HASH). Values: HashFields.
    logic [31:0] table_number; // Indirection table (RX_HASH).
    logic [31:0] xrcd; // XRC domain (XRC_RECV).
    logic [31:0] qpn; // Its number.
    logic [12:0] reserved_851;
    logic scatter_fcs; // A received frame has its check sequence behind it, as on the wire (RAW_PACKET, WQ).
    logic strip_vlan; // The 802.1Q tag of a received frame goes into its CQE (RAW_PACKET, WQ).
    logic sq_draining; // The send queue is draining (SQD).
    logic [7:0] max_recv_sge; // Most SGEs of a receive WQE.
    logic [7:0] max_send_sge; // Most SGEs of a send WQE.
    logic [31:0] max_inline; // Most bytes of inline data.
    logic [15:0] udp_sport; // UDP source port; 0 lets the card choose.
    logic [47:0] dmac; // Destination Ethernet address. The first byte of the wire is the lowest.
    logic [127:0] dgid; // Destination GID. The first byte of the wire is the lowest.
    logic [31:0] flow_label; // Flow label.
    logic [7:0] sl; // Service level: the priority in the VLAN of the source GID.
    logic [7:0] traffic_class; // Traffic class.
    logic [7:0] hop_limit; // Hop limit.
    logic [7:0] sgid_index; // Index of the source GID.
    logic [31:0] rq_psn; // First PSN to receive.
    logic [31:0] sq_psn; // First PSN to send.
    logic [31:0] qkey; // Q_Key (UD).
    logic [31:0] dest_qpn; // The peer's QP.
    logic [7:0] max_dest_rd_atomic; // READs and atomics that the peer may have outstanding.
    logic [7:0] max_rd_atomic; // READs and atomics that this side may have outstanding.
    logic [7:0] min_rnr_timer; // Code of the time that a peer waits after receiver-not-ready.
    logic [7:0] timeout; // Time-out of 4.096 us * 2^n; 0 is never.
    logic [7:0] rnr_retry; // Retries after receiver-not-ready, 0 to 7; 7 is for ever.
    logic [7:0] retry_cnt; // Retries after a time-out or a sequence error, 0 to 7.
    logic [15:0] pkey_index; // Index of the P_Key.
    logic [7:0] access; // What a peer may do (`Access`). Values: Access.
    logic [7:0] rq_stride_log; // Log2 of the bytes of a receive WQE.
    logic [7:0] rq_log; // Log2 of the receive ring's entries.
    logic [7:0] sq_log; // Log2 of the send ring's blocks.
    logic [63:0] rq_iova; // DMA address of the receive ring.
    logic [63:0] sq_iova; // DMA address of the send ring.
    logic [15:0] page; // Doorbell page.
    logic [13:0] reserved_162;
    logic sq_sig_all; // Every send WQE makes a CQE.
    logic has_srq; // Receives come from `srq`.
    logic [31:0] srq; // Shared receive queue, with `has_srq`.
    logic [31:0] recv_cq; // Receive CQ.
    logic [31:0] send_cq; // Send CQ.
    logic [31:0] pd; // Protection domain.
    logic [7:0] mtu; // Path MTU as `ibv_mtu` (`Mtu`).
    logic [7:0] port; // Port, counted from 1.
    qp_type_e qp_type; // Transport. Values: QpType.
    qp_state_e state; // State. Values: QpState.
  } qp_context_t;
  localparam int unsigned QP_CONTEXT_BITS = 2048;
  localparam int unsigned QP_CONTEXT_STATE_LSB = 0;
  localparam int unsigned QP_CONTEXT_STATE_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_QP_TYPE_LSB = 8;
  localparam int unsigned QP_CONTEXT_QP_TYPE_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_PORT_LSB = 16;
  localparam int unsigned QP_CONTEXT_PORT_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_MTU_LSB = 24;
  localparam int unsigned QP_CONTEXT_MTU_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_PD_LSB = 32;
  localparam int unsigned QP_CONTEXT_PD_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_SEND_CQ_LSB = 64;
  localparam int unsigned QP_CONTEXT_SEND_CQ_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_RECV_CQ_LSB = 96;
  localparam int unsigned QP_CONTEXT_RECV_CQ_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_SRQ_LSB = 128;
  localparam int unsigned QP_CONTEXT_SRQ_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_HAS_SRQ_LSB = 160;
  localparam int unsigned QP_CONTEXT_HAS_SRQ_WIDTH = 1;
  localparam int unsigned QP_CONTEXT_SQ_SIG_ALL_LSB = 161;
  localparam int unsigned QP_CONTEXT_SQ_SIG_ALL_WIDTH = 1;
  localparam int unsigned QP_CONTEXT_PAGE_LSB = 176;
  localparam int unsigned QP_CONTEXT_PAGE_WIDTH = 16;
  localparam int unsigned QP_CONTEXT_SQ_IOVA_LSB = 192;
  localparam int unsigned QP_CONTEXT_SQ_IOVA_WIDTH = 64;
  localparam int unsigned QP_CONTEXT_RQ_IOVA_LSB = 256;
  localparam int unsigned QP_CONTEXT_RQ_IOVA_WIDTH = 64;
  localparam int unsigned QP_CONTEXT_SQ_LOG_LSB = 320;
  localparam int unsigned QP_CONTEXT_SQ_LOG_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_RQ_LOG_LSB = 328;
  localparam int unsigned QP_CONTEXT_RQ_LOG_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_RQ_STRIDE_LOG_LSB = 336;
  localparam int unsigned QP_CONTEXT_RQ_STRIDE_LOG_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_ACCESS_LSB = 344;
  localparam int unsigned QP_CONTEXT_ACCESS_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_PKEY_INDEX_LSB = 352;
  localparam int unsigned QP_CONTEXT_PKEY_INDEX_WIDTH = 16;
  localparam int unsigned QP_CONTEXT_RETRY_CNT_LSB = 368;
  localparam int unsigned QP_CONTEXT_RETRY_CNT_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_RNR_RETRY_LSB = 376;
  localparam int unsigned QP_CONTEXT_RNR_RETRY_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_TIMEOUT_LSB = 384;
  localparam int unsigned QP_CONTEXT_TIMEOUT_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_MIN_RNR_TIMER_LSB = 392;
  localparam int unsigned QP_CONTEXT_MIN_RNR_TIMER_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_MAX_RD_ATOMIC_LSB = 400;
  localparam int unsigned QP_CONTEXT_MAX_RD_ATOMIC_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_MAX_DEST_RD_ATOMIC_LSB = 408;
  localparam int unsigned QP_CONTEXT_MAX_DEST_RD_ATOMIC_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_DEST_QPN_LSB = 416;
  localparam int unsigned QP_CONTEXT_DEST_QPN_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_QKEY_LSB = 448;
  localparam int unsigned QP_CONTEXT_QKEY_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_SQ_PSN_LSB = 480;
  localparam int unsigned QP_CONTEXT_SQ_PSN_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_RQ_PSN_LSB = 512;
  localparam int unsigned QP_CONTEXT_RQ_PSN_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_SGID_INDEX_LSB = 544;
  localparam int unsigned QP_CONTEXT_SGID_INDEX_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_HOP_LIMIT_LSB = 552;
  localparam int unsigned QP_CONTEXT_HOP_LIMIT_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_TRAFFIC_CLASS_LSB = 560;
  localparam int unsigned QP_CONTEXT_TRAFFIC_CLASS_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_SL_LSB = 568;
  localparam int unsigned QP_CONTEXT_SL_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_FLOW_LABEL_LSB = 576;
  localparam int unsigned QP_CONTEXT_FLOW_LABEL_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_DGID_LSB = 608;
  localparam int unsigned QP_CONTEXT_DGID_WIDTH = 128;
  localparam int unsigned QP_CONTEXT_DMAC_LSB = 736;
  localparam int unsigned QP_CONTEXT_DMAC_WIDTH = 48;
  localparam int unsigned QP_CONTEXT_UDP_SPORT_LSB = 784;
  localparam int unsigned QP_CONTEXT_UDP_SPORT_WIDTH = 16;
  localparam int unsigned QP_CONTEXT_MAX_INLINE_LSB = 800;
  localparam int unsigned QP_CONTEXT_MAX_INLINE_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_MAX_SEND_SGE_LSB = 832;
  localparam int unsigned QP_CONTEXT_MAX_SEND_SGE_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_MAX_RECV_SGE_LSB = 840;
  localparam int unsigned QP_CONTEXT_MAX_RECV_SGE_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_SQ_DRAINING_LSB = 848;
  localparam int unsigned QP_CONTEXT_SQ_DRAINING_WIDTH = 1;
  localparam int unsigned QP_CONTEXT_STRIP_VLAN_LSB = 849;
  localparam int unsigned QP_CONTEXT_STRIP_VLAN_WIDTH = 1;
  localparam int unsigned QP_CONTEXT_SCATTER_FCS_LSB = 850;
  localparam int unsigned QP_CONTEXT_SCATTER_FCS_WIDTH = 1;
  localparam int unsigned QP_CONTEXT_QPN_LSB = 864;
  localparam int unsigned QP_CONTEXT_QPN_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_XRCD_LSB = 896;
  localparam int unsigned QP_CONTEXT_XRCD_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_TABLE_NUMBER_LSB = 928;
  localparam int unsigned QP_CONTEXT_TABLE_NUMBER_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_HASH_FIELDS_LSB = 960;
  localparam int unsigned QP_CONTEXT_HASH_FIELDS_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_HASH_FUNCTION_LSB = 992;
  localparam int unsigned QP_CONTEXT_HASH_FUNCTION_WIDTH = 8;
  localparam int unsigned QP_CONTEXT_HASH_KEY0_LSB = 1024;
  localparam int unsigned QP_CONTEXT_HASH_KEY0_WIDTH = 64;
  localparam int unsigned QP_CONTEXT_HASH_KEY1_LSB = 1088;
  localparam int unsigned QP_CONTEXT_HASH_KEY1_WIDTH = 64;
  localparam int unsigned QP_CONTEXT_HASH_KEY2_LSB = 1152;
  localparam int unsigned QP_CONTEXT_HASH_KEY2_WIDTH = 64;
  localparam int unsigned QP_CONTEXT_HASH_KEY3_LSB = 1216;
  localparam int unsigned QP_CONTEXT_HASH_KEY3_WIDTH = 64;
  localparam int unsigned QP_CONTEXT_HASH_KEY4_LSB = 1280;
  localparam int unsigned QP_CONTEXT_HASH_KEY4_WIDTH = 64;
  localparam int unsigned QP_CONTEXT_RATE_LIMIT_LSB = 1344;
  localparam int unsigned QP_CONTEXT_RATE_LIMIT_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_MAX_BURST_LSB = 1376;
  localparam int unsigned QP_CONTEXT_MAX_BURST_WIDTH = 32;
  localparam int unsigned QP_CONTEXT_TYPICAL_PACKET_LSB = 1408;
  localparam int unsigned QP_CONTEXT_TYPICAL_PACKET_WIDTH = 16;

  // Context of a completion queue: CREATE_CQ, RESIZE_CQ, MODIFY_CQ. The last of these reads only the moderation, which RESIZE_CQ leaves as it is.
  typedef struct packed {
    logic [303:0] reserved_208;
    logic [15:0] event_period; // Longest time in microseconds that an event is held back; 0: no event is (MODERATION).
    logic [15:0] event_count; // An event is held back until it tells of this many completions; 0 and 1: until the first (MODERATION).
    logic [13:0] reserved_162;
    logic stamped; // CQEs say when they were written (TIMESTAMP).
    logic ignore_overrun; // Overwrite instead of failing where the ring is full.
    logic [15:0] page; // Doorbell page.
    logic [7:0] vector; // Index of the event queue.
    logic [7:0] log_size; // Log2 of the entries.
    logic [63:0] ci_iova; // DMA address of the u32 consumer index that software keeps.
    logic [63:0] ring_iova; // DMA address of the ring.
  } cq_context_t;
  localparam int unsigned CQ_CONTEXT_BITS = 512;
  localparam int unsigned CQ_CONTEXT_RING_IOVA_LSB = 0;
  localparam int unsigned CQ_CONTEXT_RING_IOVA_WIDTH = 64;
  localparam int unsigned CQ_CONTEXT_CI_IOVA_LSB = 64;
  localparam int unsigned CQ_CONTEXT_CI_IOVA_WIDTH = 64;
  localparam int unsigned CQ_CONTEXT_LOG_SIZE_LSB = 128;
  localparam int unsigned CQ_CONTEXT_LOG_SIZE_WIDTH = 8;
  localparam int unsigned CQ_CONTEXT_VECTOR_LSB = 136;
  localparam int unsigned CQ_CONTEXT_VECTOR_WIDTH = 8;
  localparam int unsigned CQ_CONTEXT_PAGE_LSB = 144;
  localparam int unsigned CQ_CONTEXT_PAGE_WIDTH = 16;
  localparam int unsigned CQ_CONTEXT_IGNORE_OVERRUN_LSB = 160;
  localparam int unsigned CQ_CONTEXT_IGNORE_OVERRUN_WIDTH = 1;
  localparam int unsigned CQ_CONTEXT_STAMPED_LSB = 161;
  localparam int unsigned CQ_CONTEXT_STAMPED_WIDTH = 1;
  localparam int unsigned CQ_CONTEXT_EVENT_COUNT_LSB = 176;
  localparam int unsigned CQ_CONTEXT_EVENT_COUNT_WIDTH = 16;
  localparam int unsigned CQ_CONTEXT_EVENT_PERIOD_LSB = 192;
  localparam int unsigned CQ_CONTEXT_EVENT_PERIOD_WIDTH = 16;

  // Context of a shared receive queue: CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ.
  typedef struct packed {
    logic [223:0] reserved_288;
    logic [31:0] cq; // Where its receives complete, with `xrcd`.
    logic [31:0] xrcd; // XRC domain; 0 for a queue that QPs are created with.
    logic [23:0] reserved_200;
    logic [7:0] max_sge; // Most SGEs of a WQE.
    logic [31:0] limit; // An event is raised when fewer WQEs than this are left; 0 is never.
    logic [15:0] page; // Doorbell page.
    logic [7:0] stride_log; // Log2 of the bytes of a WQE.
    logic [7:0] log_size; // Log2 of the entries.
    logic [63:0] ring_iova; // DMA address of the ring.
    logic [31:0] reserved_32;
    logic [31:0] pd; // Protection domain.
  } srq_context_t;
  localparam int unsigned SRQ_CONTEXT_BITS = 512;
  localparam int unsigned SRQ_CONTEXT_PD_LSB = 0;
  localparam int unsigned SRQ_CONTEXT_PD_WIDTH = 32;
  localparam int unsigned SRQ_CONTEXT_RING_IOVA_LSB = 64;
  localparam int unsigned SRQ_CONTEXT_RING_IOVA_WIDTH = 64;
  localparam int unsigned SRQ_CONTEXT_LOG_SIZE_LSB = 128;
  localparam int unsigned SRQ_CONTEXT_LOG_SIZE_WIDTH = 8;
  localparam int unsigned SRQ_CONTEXT_STRIDE_LOG_LSB = 136;
  localparam int unsigned SRQ_CONTEXT_STRIDE_LOG_WIDTH = 8;
  localparam int unsigned SRQ_CONTEXT_PAGE_LSB = 144;
  localparam int unsigned SRQ_CONTEXT_PAGE_WIDTH = 16;
  localparam int unsigned SRQ_CONTEXT_LIMIT_LSB = 160;
  localparam int unsigned SRQ_CONTEXT_LIMIT_WIDTH = 32;
  localparam int unsigned SRQ_CONTEXT_MAX_SGE_LSB = 192;
  localparam int unsigned SRQ_CONTEXT_MAX_SGE_WIDTH = 8;
  localparam int unsigned SRQ_CONTEXT_XRCD_LSB = 224;
  localparam int unsigned SRQ_CONTEXT_XRCD_WIDTH = 32;
  localparam int unsigned SRQ_CONTEXT_CQ_LSB = 256;
  localparam int unsigned SRQ_CONTEXT_CQ_WIDTH = 32;

  // Context of an event queue: CREATE_EQ.
  typedef struct packed {
    logic [175:0] reserved_80;
    logic [7:0] vector; // Interrupt vector.
    logic [7:0] log_size; // Log2 of the entries.
    logic [63:0] ring_iova; // DMA address of the ring.
  } eq_context_t;
  localparam int unsigned EQ_CONTEXT_BITS = 256;
  localparam int unsigned EQ_CONTEXT_RING_IOVA_LSB = 0;
  localparam int unsigned EQ_CONTEXT_RING_IOVA_WIDTH = 64;
  localparam int unsigned EQ_CONTEXT_LOG_SIZE_LSB = 64;
  localparam int unsigned EQ_CONTEXT_LOG_SIZE_WIDTH = 8;
  localparam int unsigned EQ_CONTEXT_VECTOR_LSB = 72;
  localparam int unsigned EQ_CONTEXT_VECTOR_WIDTH = 8;

  // Context of a memory registration: CREATE_MR.
  typedef struct packed {
    logic [223:0] reserved_288;
    logic [31:0] first_offset; // Offset of the first byte in the first page (PAGE_LIST).
    logic [63:0] iova; // DMA address of the first byte (DIRECT), or of the list of `PageEntry` (PAGE_LIST), or address of the first byte in the process (ON_DEMAND), or its offset in the card's memory (ON_CARD).
    logic [63:0] length; // Bytes.
    logic [63:0] va; // Address of the first byte as keys know it; 0 for a zero-based one.
    logic [7:0] reserved_56;
    logic [7:0] page_shift; // Log2 of the page size (PAGE_LIST).
    mr_mode_e mode; // How it finds its memory. Values: MrMode.
    logic [7:0] access; // Rights. Values: Access.
    logic [31:0] pd; // Protection domain.
  } mr_context_t;
  localparam int unsigned MR_CONTEXT_BITS = 512;
  localparam int unsigned MR_CONTEXT_PD_LSB = 0;
  localparam int unsigned MR_CONTEXT_PD_WIDTH = 32;
  localparam int unsigned MR_CONTEXT_ACCESS_LSB = 32;
  localparam int unsigned MR_CONTEXT_ACCESS_WIDTH = 8;
  localparam int unsigned MR_CONTEXT_MODE_LSB = 40;
  localparam int unsigned MR_CONTEXT_MODE_WIDTH = 8;
  localparam int unsigned MR_CONTEXT_PAGE_SHIFT_LSB = 48;
  localparam int unsigned MR_CONTEXT_PAGE_SHIFT_WIDTH = 8;
  localparam int unsigned MR_CONTEXT_VA_LSB = 64;
  localparam int unsigned MR_CONTEXT_VA_WIDTH = 64;
  localparam int unsigned MR_CONTEXT_LENGTH_LSB = 128;
  localparam int unsigned MR_CONTEXT_LENGTH_WIDTH = 64;
  localparam int unsigned MR_CONTEXT_IOVA_LSB = 192;
  localparam int unsigned MR_CONTEXT_IOVA_WIDTH = 64;
  localparam int unsigned MR_CONTEXT_FIRST_OFFSET_LSB = 256;
  localparam int unsigned MR_CONTEXT_FIRST_OFFSET_WIDTH = 32;

  // State of a memory window: QUERY_MW.
  typedef struct packed {
    logic [191:0] reserved_320;
    logic [63:0] length; // Bytes.
    logic [63:0] addr; // First address.
    logic [39:0] reserved_152;
    logic [23:0] qpn; // The QP that bound it (type 2).
    logic [31:0] mr_lkey; // Key of the MR that it is bound to.
    logic [31:0] rkey; // Its R_Key.
    logic [14:0] reserved_49;
    logic bound; // The window is bound.
    logic [7:0] access; // Rights. Values: Access.
    logic [7:0] mw_type; // Type, 1 or 2.
    logic [31:0] pd; // Protection domain.
  } mw_context_t;
  localparam int unsigned MW_CONTEXT_BITS = 512;
  localparam int unsigned MW_CONTEXT_PD_LSB = 0;
  localparam int unsigned MW_CONTEXT_PD_WIDTH = 32;
  localparam int unsigned MW_CONTEXT_MW_TYPE_LSB = 32;
  localparam int unsigned MW_CONTEXT_MW_TYPE_WIDTH = 8;
  localparam int unsigned MW_CONTEXT_ACCESS_LSB = 40;
  localparam int unsigned MW_CONTEXT_ACCESS_WIDTH = 8;
  localparam int unsigned MW_CONTEXT_BOUND_LSB = 48;
  localparam int unsigned MW_CONTEXT_BOUND_WIDTH = 1;
  localparam int unsigned MW_CONTEXT_RKEY_LSB = 64;
  localparam int unsigned MW_CONTEXT_RKEY_WIDTH = 32;
  localparam int unsigned MW_CONTEXT_MR_LKEY_LSB = 96;
  localparam int unsigned MW_CONTEXT_MR_LKEY_WIDTH = 32;
  localparam int unsigned MW_CONTEXT_QPN_LSB = 128;
  localparam int unsigned MW_CONTEXT_QPN_WIDTH = 24;
  localparam int unsigned MW_CONTEXT_ADDR_LSB = 192;
  localparam int unsigned MW_CONTEXT_ADDR_WIDTH = 64;
  localparam int unsigned MW_CONTEXT_LENGTH_LSB = 256;
  localparam int unsigned MW_CONTEXT_LENGTH_WIDTH = 64;

  // State of a port: QUERY_PORT (out) and SET_PORT (in).
  typedef struct packed {
    logic [191:0] reserved_320;
    logic [127:0] gid; // A GID. The first byte of the wire is the lowest.
    logic [15:0] vlan; // VLAN of `gid`.
    logic [47:0] mac; // Ethernet address. The first byte of the wire is the lowest.
    logic [31:0] mtu_max; // Largest path MTU that the card can do, in bytes.
    logic [31:0] mtu_active; // Largest path MTU now, in bytes.
    logic [31:0] speed_mbps; // Speed in Mb/s.
    logic [6:0] reserved_25;
    logic vlan_present; // `vlan` is used with `gid`.
    gid_type_e gid_type; // Kind of `gid`; IB clears the entry. Values: GidType.
    logic [7:0] gid_index; // Index of the GID in `gid`.
    logic [3:0] reserved_4;
    logic tx_pause; // The port asks senders of whole frames to stop while receives are missing.
    logic rx_pause; // The port stops sending whole frames while a receiver asks for that.
    logic enabled; // Software wants the link to be up, as it does when the card is powered up. All functions have one setting, which `CONTROL.reset` does not change. Else the port sends no signal, and LINK says `DISABLED`.
    logic link_up; // The link is up.
  } port_context_t;
  localparam int unsigned PORT_CONTEXT_BITS = 512;
  localparam int unsigned PORT_CONTEXT_LINK_UP_LSB = 0;
  localparam int unsigned PORT_CONTEXT_LINK_UP_WIDTH = 1;
  localparam int unsigned PORT_CONTEXT_ENABLED_LSB = 1;
  localparam int unsigned PORT_CONTEXT_ENABLED_WIDTH = 1;
  localparam int unsigned PORT_CONTEXT_RX_PAUSE_LSB = 2;
  localparam int unsigned PORT_CONTEXT_RX_PAUSE_WIDTH = 1;
  localparam int unsigned PORT_CONTEXT_TX_PAUSE_LSB = 3;
  localparam int unsigned PORT_CONTEXT_TX_PAUSE_WIDTH = 1;
  localparam int unsigned PORT_CONTEXT_GID_INDEX_LSB = 8;
  localparam int unsigned PORT_CONTEXT_GID_INDEX_WIDTH = 8;
  localparam int unsigned PORT_CONTEXT_GID_TYPE_LSB = 16;
  localparam int unsigned PORT_CONTEXT_GID_TYPE_WIDTH = 8;
  localparam int unsigned PORT_CONTEXT_VLAN_PRESENT_LSB = 24;
  localparam int unsigned PORT_CONTEXT_VLAN_PRESENT_WIDTH = 1;
  localparam int unsigned PORT_CONTEXT_SPEED_MBPS_LSB = 32;
  localparam int unsigned PORT_CONTEXT_SPEED_MBPS_WIDTH = 32;
  localparam int unsigned PORT_CONTEXT_MTU_ACTIVE_LSB = 64;
  localparam int unsigned PORT_CONTEXT_MTU_ACTIVE_WIDTH = 32;
  localparam int unsigned PORT_CONTEXT_MTU_MAX_LSB = 96;
  localparam int unsigned PORT_CONTEXT_MTU_MAX_WIDTH = 32;
  localparam int unsigned PORT_CONTEXT_MAC_LSB = 128;
  localparam int unsigned PORT_CONTEXT_MAC_WIDTH = 48;
  localparam int unsigned PORT_CONTEXT_VLAN_LSB = 176;
  localparam int unsigned PORT_CONTEXT_VLAN_WIDTH = 16;
  localparam int unsigned PORT_CONTEXT_GID_LSB = 192;
  localparam int unsigned PORT_CONTEXT_GID_WIDTH = 128;

  // A flow rule: CREATE_FLOW. A frame matches a NORMAL rule if each of its fields, under the rule's mask, is the rule's value under the same mask; a field that the frame does not have matches only a mask of zero. Kinds other than NORMAL and KERNEL have no values and masks. Of the NORMAL rules that match, those of the best priority get a copy each, and what does not trap goes on. Headers after at most two VLAN tags are looked at.
  typedef struct packed {
    logic [39:0] reserved_1112;
    logic [7:0] hop_limit_mask; // Mask of `hop_limit`.
    logic [7:0] traffic_class_mask; // Mask of `traffic_class`.
    logic [7:0] protocol_mask; // Mask of `protocol`.
    logic [15:0] dst_port_mask; // Mask of `dst_port`.
    logic [15:0] src_port_mask; // Mask of `src_port`.
    logic [31:0] flow_label_mask; // Mask of `flow_label`.
    logic [127:0] dst_ip_mask; // Mask of `dst_ip`. The first byte of the wire is the lowest.
    logic [127:0] src_ip_mask; // Mask of `src_ip`. The first byte of the wire is the lowest.
    logic [15:0] vlan_tci_mask; // Mask of `vlan_tci`.
    logic [15:0] ether_type_mask; // Mask of `ether_type`.
    logic [47:0] smac_mask; // Mask of `smac`. The first byte of the wire is the lowest.
    logic [47:0] dmac_mask; // Mask of `dmac`. The first byte of the wire is the lowest.
    logic [39:0] reserved_600;
    logic [7:0] hop_limit; // IPv4 TTL or IPv6 hop limit.
    logic [7:0] traffic_class; // IPv4 TOS or IPv6 traffic class.
    logic [7:0] protocol; // IPv4 protocol, or the header that follows IPv6 and its extensions.
    logic [15:0] dst_port; // Destination port of TCP or UDP.
    logic [15:0] src_port; // Source port of TCP or UDP.
    logic [31:0] flow_label; // IPv6 flow label.
    logic [127:0] dst_ip; // Destination IP address, likewise. The first byte of the wire is the lowest.
    logic [127:0] src_ip; // Source IP address; one of IPv4 is in the last four bytes. The first byte of the wire is the lowest.
    logic [15:0] vlan_tci; // Tag control information of the first VLAN tag.
    logic [15:0] ether_type; // EtherType, after VLAN tags.
    logic [47:0] smac; // Source address. The first byte of the wire is the lowest.
    logic [47:0] dmac; // Destination address. The first byte of the wire is the lowest.
    logic [31:0] reserved_96;
    logic [31:0] mark; // What the rule marks frames with.
    logic [7:0] tags_mask; // Mask of `tags`. Values: FrameTags.
    logic [7:0] tags; // The VLAN tags of the frame. Values: FrameTags.
    logic [7:0] ip_version; // 4 or 6: only frames with this version of IP; 0: any, and the fields of IP and after it are not looked at.
    logic [2:0] reserved_37;
    logic by_vlan; // Of the frames with a tag it takes only those whose first one is of 802.1Q, and of a VLAN that its function takes at the port: SET_VLAN. Rules of any kind may have it.
    logic counted; // The card counts the frames of the rule: QUERY_FLOW.
    logic marked; // Frames come with `mark` in their CQE.
    logic drop; // The rule keeps the frame, and gives it to nobody: RX_RULE_DROP counts what no rule of the same priority takes. Only NORMAL rules that trap.
    logic dont_trap; // The rule takes a copy: rules of worse priority are asked too.
    logic [15:0] precedence; // Priority, 0 is the best.
    logic [7:0] port; // Port, counted from 1.
    flow_kind_e kind; // Kind. Values: FlowKind.
  } flow_context_t;
  localparam int unsigned FLOW_CONTEXT_BITS = 1152;
  localparam int unsigned FLOW_CONTEXT_KIND_LSB = 0;
  localparam int unsigned FLOW_CONTEXT_KIND_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_PORT_LSB = 8;
  localparam int unsigned FLOW_CONTEXT_PORT_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_PRECEDENCE_LSB = 16;
  localparam int unsigned FLOW_CONTEXT_PRECEDENCE_WIDTH = 16;
  localparam int unsigned FLOW_CONTEXT_DONT_TRAP_LSB = 32;
  localparam int unsigned FLOW_CONTEXT_DONT_TRAP_WIDTH = 1;
  localparam int unsigned FLOW_CONTEXT_DROP_LSB = 33;
  localparam int unsigned FLOW_CONTEXT_DROP_WIDTH = 1;
  localparam int unsigned FLOW_CONTEXT_MARKED_LSB = 34;
  localparam int unsigned FLOW_CONTEXT_MARKED_WIDTH = 1;
  localparam int unsigned FLOW_CONTEXT_COUNTED_LSB = 35;
  localparam int unsigned FLOW_CONTEXT_COUNTED_WIDTH = 1;
  localparam int unsigned FLOW_CONTEXT_BY_VLAN_LSB = 36;
  localparam int unsigned FLOW_CONTEXT_BY_VLAN_WIDTH = 1;
  localparam int unsigned FLOW_CONTEXT_IP_VERSION_LSB = 40;
  localparam int unsigned FLOW_CONTEXT_IP_VERSION_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_TAGS_LSB = 48;
  localparam int unsigned FLOW_CONTEXT_TAGS_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_TAGS_MASK_LSB = 56;
  localparam int unsigned FLOW_CONTEXT_TAGS_MASK_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_MARK_LSB = 64;
  localparam int unsigned FLOW_CONTEXT_MARK_WIDTH = 32;
  localparam int unsigned FLOW_CONTEXT_DMAC_LSB = 128;
  localparam int unsigned FLOW_CONTEXT_DMAC_WIDTH = 48;
  localparam int unsigned FLOW_CONTEXT_SMAC_LSB = 176;
  localparam int unsigned FLOW_CONTEXT_SMAC_WIDTH = 48;
  localparam int unsigned FLOW_CONTEXT_ETHER_TYPE_LSB = 224;
  localparam int unsigned FLOW_CONTEXT_ETHER_TYPE_WIDTH = 16;
  localparam int unsigned FLOW_CONTEXT_VLAN_TCI_LSB = 240;
  localparam int unsigned FLOW_CONTEXT_VLAN_TCI_WIDTH = 16;
  localparam int unsigned FLOW_CONTEXT_SRC_IP_LSB = 256;
  localparam int unsigned FLOW_CONTEXT_SRC_IP_WIDTH = 128;
  localparam int unsigned FLOW_CONTEXT_DST_IP_LSB = 384;
  localparam int unsigned FLOW_CONTEXT_DST_IP_WIDTH = 128;
  localparam int unsigned FLOW_CONTEXT_FLOW_LABEL_LSB = 512;
  localparam int unsigned FLOW_CONTEXT_FLOW_LABEL_WIDTH = 32;
  localparam int unsigned FLOW_CONTEXT_SRC_PORT_LSB = 544;
  localparam int unsigned FLOW_CONTEXT_SRC_PORT_WIDTH = 16;
  localparam int unsigned FLOW_CONTEXT_DST_PORT_LSB = 560;
  localparam int unsigned FLOW_CONTEXT_DST_PORT_WIDTH = 16;
  localparam int unsigned FLOW_CONTEXT_PROTOCOL_LSB = 576;
  localparam int unsigned FLOW_CONTEXT_PROTOCOL_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_TRAFFIC_CLASS_LSB = 584;
  localparam int unsigned FLOW_CONTEXT_TRAFFIC_CLASS_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_HOP_LIMIT_LSB = 592;
  localparam int unsigned FLOW_CONTEXT_HOP_LIMIT_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_DMAC_MASK_LSB = 640;
  localparam int unsigned FLOW_CONTEXT_DMAC_MASK_WIDTH = 48;
  localparam int unsigned FLOW_CONTEXT_SMAC_MASK_LSB = 688;
  localparam int unsigned FLOW_CONTEXT_SMAC_MASK_WIDTH = 48;
  localparam int unsigned FLOW_CONTEXT_ETHER_TYPE_MASK_LSB = 736;
  localparam int unsigned FLOW_CONTEXT_ETHER_TYPE_MASK_WIDTH = 16;
  localparam int unsigned FLOW_CONTEXT_VLAN_TCI_MASK_LSB = 752;
  localparam int unsigned FLOW_CONTEXT_VLAN_TCI_MASK_WIDTH = 16;
  localparam int unsigned FLOW_CONTEXT_SRC_IP_MASK_LSB = 768;
  localparam int unsigned FLOW_CONTEXT_SRC_IP_MASK_WIDTH = 128;
  localparam int unsigned FLOW_CONTEXT_DST_IP_MASK_LSB = 896;
  localparam int unsigned FLOW_CONTEXT_DST_IP_MASK_WIDTH = 128;
  localparam int unsigned FLOW_CONTEXT_FLOW_LABEL_MASK_LSB = 1024;
  localparam int unsigned FLOW_CONTEXT_FLOW_LABEL_MASK_WIDTH = 32;
  localparam int unsigned FLOW_CONTEXT_SRC_PORT_MASK_LSB = 1056;
  localparam int unsigned FLOW_CONTEXT_SRC_PORT_MASK_WIDTH = 16;
  localparam int unsigned FLOW_CONTEXT_DST_PORT_MASK_LSB = 1072;
  localparam int unsigned FLOW_CONTEXT_DST_PORT_MASK_WIDTH = 16;
  localparam int unsigned FLOW_CONTEXT_PROTOCOL_MASK_LSB = 1088;
  localparam int unsigned FLOW_CONTEXT_PROTOCOL_MASK_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_TRAFFIC_CLASS_MASK_LSB = 1096;
  localparam int unsigned FLOW_CONTEXT_TRAFFIC_CLASS_MASK_WIDTH = 8;
  localparam int unsigned FLOW_CONTEXT_HOP_LIMIT_MASK_LSB = 1104;
  localparam int unsigned FLOW_CONTEXT_HOP_LIMIT_MASK_WIDTH = 8;

  // An indirection table: CREATE_TABLE, MODIFY_TABLE. A frame goes to the work queue whose place in the table is the low bits of its hash.
  typedef struct packed {
    logic [55:0] reserved_72;
    logic [7:0] log_size; // Log2 of the entries.
    logic [63:0] entries_iova; // DMA address of the numbers of the work queues, a u32 for each entry. The card reads them while it executes the command.
  } table_context_t;
  localparam int unsigned TABLE_CONTEXT_BITS = 128;
  localparam int unsigned TABLE_CONTEXT_ENTRIES_IOVA_LSB = 0;
  localparam int unsigned TABLE_CONTEXT_ENTRIES_IOVA_WIDTH = 64;
  localparam int unsigned TABLE_CONTEXT_LOG_SIZE_LSB = 64;
  localparam int unsigned TABLE_CONTEXT_LOG_SIZE_WIDTH = 8;

  // SET_LAG (in: the first three fields), and one port of it: QUERY_LAG (out).
  typedef struct packed {
    logic [199:0] reserved_312;
    logic [7:0] aggregator; // The port's aggregation, 1 or 2: ports of the same one are one.
    logic [47:0] partner; // The partner; zero if none was heard of. The first byte of the wire is the lowest.
    logic [15:0] partner_priority; // The partner's priority.
    logic [15:0] partner_key; // Ports of the partner with the same key can be one.
    logic [15:0] partner_port; // Number of the partner's port.
    logic [7:0] partner_state; // Its partner's. Values: LacpState.
    logic [7:0] actor_state; // The port's own state. Values: LacpState.
    logic [63:0] lacp_sent; // LACPDUs sent.
    logic [63:0] lacp_received; // LACPDUs received.
    logic [31:0] qps; // QPs whose packets leave by it.
    logic [5:0] reserved_26;
    logic active; // It has a part of the traffic.
    logic link_up; // The link of the port is up.
    lacp_rate_e rate; // LACP only. Values: LacpRate.
    lag_select_e select; // Which one packets leave by. Values: LagSelect.
    lag_mode_e mode; // How the ports are one. Values: LagMode.
  } lag_context_t;
  localparam int unsigned LAG_CONTEXT_BITS = 512;
  localparam int unsigned LAG_CONTEXT_MODE_LSB = 0;
  localparam int unsigned LAG_CONTEXT_MODE_WIDTH = 8;
  localparam int unsigned LAG_CONTEXT_SELECT_LSB = 8;
  localparam int unsigned LAG_CONTEXT_SELECT_WIDTH = 8;
  localparam int unsigned LAG_CONTEXT_RATE_LSB = 16;
  localparam int unsigned LAG_CONTEXT_RATE_WIDTH = 8;
  localparam int unsigned LAG_CONTEXT_LINK_UP_LSB = 24;
  localparam int unsigned LAG_CONTEXT_LINK_UP_WIDTH = 1;
  localparam int unsigned LAG_CONTEXT_ACTIVE_LSB = 25;
  localparam int unsigned LAG_CONTEXT_ACTIVE_WIDTH = 1;
  localparam int unsigned LAG_CONTEXT_QPS_LSB = 32;
  localparam int unsigned LAG_CONTEXT_QPS_WIDTH = 32;
  localparam int unsigned LAG_CONTEXT_LACP_RECEIVED_LSB = 64;
  localparam int unsigned LAG_CONTEXT_LACP_RECEIVED_WIDTH = 64;
  localparam int unsigned LAG_CONTEXT_LACP_SENT_LSB = 128;
  localparam int unsigned LAG_CONTEXT_LACP_SENT_WIDTH = 64;
  localparam int unsigned LAG_CONTEXT_ACTOR_STATE_LSB = 192;
  localparam int unsigned LAG_CONTEXT_ACTOR_STATE_WIDTH = 8;
  localparam int unsigned LAG_CONTEXT_PARTNER_STATE_LSB = 200;
  localparam int unsigned LAG_CONTEXT_PARTNER_STATE_WIDTH = 8;
  localparam int unsigned LAG_CONTEXT_PARTNER_PORT_LSB = 208;
  localparam int unsigned LAG_CONTEXT_PARTNER_PORT_WIDTH = 16;
  localparam int unsigned LAG_CONTEXT_PARTNER_KEY_LSB = 224;
  localparam int unsigned LAG_CONTEXT_PARTNER_KEY_WIDTH = 16;
  localparam int unsigned LAG_CONTEXT_PARTNER_PRIORITY_LSB = 240;
  localparam int unsigned LAG_CONTEXT_PARTNER_PRIORITY_WIDTH = 16;
  localparam int unsigned LAG_CONTEXT_PARTNER_LSB = 256;
  localparam int unsigned LAG_CONTEXT_PARTNER_WIDTH = 48;
  localparam int unsigned LAG_CONTEXT_AGGREGATOR_LSB = 304;
  localparam int unsigned LAG_CONTEXT_AGGREGATOR_WIDTH = 8;

  // Limits of whole Ethernet frames: QUERY_ETHERNET.
  typedef struct packed {
    logic [31:0] reserved_224;
    logic [31:0] max_rate_limit; // Largest rate limit of a QP in kbit/s (PACING).
    logic [31:0] min_rate_limit; // Least rate limit of a QP in kbit/s (PACING).
    logic [31:0] max_tso; // Most bytes of data of a RAW_TSO (TSO).
    logic [31:0] hash_fields; // Fields that can be hashed. Values: HashFields.
    logic [31:0] max_wq; // Most receive work queues. They are QPs, too.
    logic [31:0] max_table_entries; // Most entries of a table.
    logic [31:0] max_tables; // Most indirection tables.
  } ethernet_limits_t;
  localparam int unsigned ETHERNET_LIMITS_BITS = 256;
  localparam int unsigned ETHERNET_LIMITS_MAX_TABLES_LSB = 0;
  localparam int unsigned ETHERNET_LIMITS_MAX_TABLES_WIDTH = 32;
  localparam int unsigned ETHERNET_LIMITS_MAX_TABLE_ENTRIES_LSB = 32;
  localparam int unsigned ETHERNET_LIMITS_MAX_TABLE_ENTRIES_WIDTH = 32;
  localparam int unsigned ETHERNET_LIMITS_MAX_WQ_LSB = 64;
  localparam int unsigned ETHERNET_LIMITS_MAX_WQ_WIDTH = 32;
  localparam int unsigned ETHERNET_LIMITS_HASH_FIELDS_LSB = 96;
  localparam int unsigned ETHERNET_LIMITS_HASH_FIELDS_WIDTH = 32;
  localparam int unsigned ETHERNET_LIMITS_MAX_TSO_LSB = 128;
  localparam int unsigned ETHERNET_LIMITS_MAX_TSO_WIDTH = 32;
  localparam int unsigned ETHERNET_LIMITS_MIN_RATE_LIMIT_LSB = 160;
  localparam int unsigned ETHERNET_LIMITS_MIN_RATE_LIMIT_WIDTH = 32;
  localparam int unsigned ETHERNET_LIMITS_MAX_RATE_LIMIT_LSB = 192;
  localparam int unsigned ETHERNET_LIMITS_MAX_RATE_LIMIT_WIDTH = 32;

  // Limits of the card.
  typedef struct packed {
    logic [31:0] max_total_mcast_qp_attach; // Most multicast attachments in all.
    logic [31:0] max_res_rd_atom; // Most READs and atomics outstanding at the card as target.
    logic [31:0] part_id; // Part number to present to software.
    logic [31:0] eq_count; // Event queues of a function.
    logic [63:0] fw_ver; // Firmware: major << 32 | minor << 16 | patch.
    logic [63:0] page_size_cap; // Page sizes that page lists may have, one bit each.
    logic [31:0] clock_khz; // Clock of the timestamps in kHz.
    logic [31:0] pkey_table_len; // Entries of a port's P_Key table.
    logic [31:0] gid_table_len; // Entries of a port's GID table.
    logic [31:0] ports; // Ports.
    logic [31:0] max_mcast_qp_attach; // Most QPs of a multicast group.
    logic [31:0] max_mcast_grp; // Most multicast groups.
    logic [31:0] max_ah; // Most address handles.
    logic [31:0] max_mw; // Most memory windows.
    logic [31:0] max_srq_sge; // Most SGEs of an SRQ's WQE.
    logic [31:0] max_srq_wr; // Most WQEs of an SRQ.
    logic [31:0] max_srq; // Most SRQs.
    logic [31:0] max_qp_init_rd_atom; // Most READs and atomics outstanding at a QP as initiator.
    logic [31:0] max_qp_rd_atom; // Most READs and atomics outstanding at a QP as target.
    logic [31:0] max_pd; // Most PDs.
    logic [63:0] max_mr_size; // Most bytes of an MR.
    logic [31:0] max_mr; // Most MRs.
    logic [31:0] max_cqe; // Most entries of a CQ.
    logic [31:0] max_cq; // Most CQs.
    logic [31:0] max_inline; // Most bytes of inline data.
    logic [31:0] max_sge_rd; // Most SGEs of a READ.
    logic [31:0] max_sge; // Most SGEs of a WQE.
    logic [31:0] max_qp_wr; // Most WQEs outstanding on a queue.
    logic [31:0] max_qp; // Most QPs.
  } card_limits_t;
  localparam int unsigned CARD_LIMITS_BITS = 1024;
  localparam int unsigned CARD_LIMITS_MAX_QP_LSB = 0;
  localparam int unsigned CARD_LIMITS_MAX_QP_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_QP_WR_LSB = 32;
  localparam int unsigned CARD_LIMITS_MAX_QP_WR_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_SGE_LSB = 64;
  localparam int unsigned CARD_LIMITS_MAX_SGE_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_SGE_RD_LSB = 96;
  localparam int unsigned CARD_LIMITS_MAX_SGE_RD_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_INLINE_LSB = 128;
  localparam int unsigned CARD_LIMITS_MAX_INLINE_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_CQ_LSB = 160;
  localparam int unsigned CARD_LIMITS_MAX_CQ_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_CQE_LSB = 192;
  localparam int unsigned CARD_LIMITS_MAX_CQE_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_MR_LSB = 224;
  localparam int unsigned CARD_LIMITS_MAX_MR_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_MR_SIZE_LSB = 256;
  localparam int unsigned CARD_LIMITS_MAX_MR_SIZE_WIDTH = 64;
  localparam int unsigned CARD_LIMITS_MAX_PD_LSB = 320;
  localparam int unsigned CARD_LIMITS_MAX_PD_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_QP_RD_ATOM_LSB = 352;
  localparam int unsigned CARD_LIMITS_MAX_QP_RD_ATOM_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_QP_INIT_RD_ATOM_LSB = 384;
  localparam int unsigned CARD_LIMITS_MAX_QP_INIT_RD_ATOM_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_SRQ_LSB = 416;
  localparam int unsigned CARD_LIMITS_MAX_SRQ_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_SRQ_WR_LSB = 448;
  localparam int unsigned CARD_LIMITS_MAX_SRQ_WR_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_SRQ_SGE_LSB = 480;
  localparam int unsigned CARD_LIMITS_MAX_SRQ_SGE_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_MW_LSB = 512;
  localparam int unsigned CARD_LIMITS_MAX_MW_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_AH_LSB = 544;
  localparam int unsigned CARD_LIMITS_MAX_AH_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_MCAST_GRP_LSB = 576;
  localparam int unsigned CARD_LIMITS_MAX_MCAST_GRP_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_MCAST_QP_ATTACH_LSB = 608;
  localparam int unsigned CARD_LIMITS_MAX_MCAST_QP_ATTACH_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_PORTS_LSB = 640;
  localparam int unsigned CARD_LIMITS_PORTS_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_GID_TABLE_LEN_LSB = 672;
  localparam int unsigned CARD_LIMITS_GID_TABLE_LEN_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_PKEY_TABLE_LEN_LSB = 704;
  localparam int unsigned CARD_LIMITS_PKEY_TABLE_LEN_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_CLOCK_KHZ_LSB = 736;
  localparam int unsigned CARD_LIMITS_CLOCK_KHZ_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_PAGE_SIZE_CAP_LSB = 768;
  localparam int unsigned CARD_LIMITS_PAGE_SIZE_CAP_WIDTH = 64;
  localparam int unsigned CARD_LIMITS_FW_VER_LSB = 832;
  localparam int unsigned CARD_LIMITS_FW_VER_WIDTH = 64;
  localparam int unsigned CARD_LIMITS_EQ_COUNT_LSB = 896;
  localparam int unsigned CARD_LIMITS_EQ_COUNT_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_PART_ID_LSB = 928;
  localparam int unsigned CARD_LIMITS_PART_ID_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_RES_RD_ATOM_LSB = 960;
  localparam int unsigned CARD_LIMITS_MAX_RES_RD_ATOM_WIDTH = 32;
  localparam int unsigned CARD_LIMITS_MAX_TOTAL_MCAST_QP_ATTACH_LSB = 992;
  localparam int unsigned CARD_LIMITS_MAX_TOTAL_MCAST_QP_ATTACH_WIDTH = 32;

  // Entry of a page list.
  typedef struct packed {
    logic [63:0] addr; // DMA address of the page.
  } page_entry_t;
  localparam int unsigned PAGE_ENTRY_BITS = 64;
  localparam int unsigned PAGE_ENTRY_ADDR_LSB = 0;
  localparam int unsigned PAGE_ENTRY_ADDR_WIDTH = 64;

endpackage

/* verilator lint_on SYMRSVDWORD */
/* verilator lint_on UNUSEDPARAM */
