// What the server and the client of this example share: opening a device, a registered buffer,
// a queue pair and its way to RTS, the TCP exchange, and waiting for completions through epoll.
//
// Only stock libibverbs is used, so the two programs run on any RoCE or InfiniBand card.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// ---- Errors: every message says what was tried and why it failed -------------------------------

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Verbs that make something return a null pointer and set errno.
template <typename T>
T *made(T *pointer, const std::string &what) {
    if (!pointer) throw Error(what + ": " + std::strerror(errno));
    return pointer;
}

// Verbs that change something return 0, or the error number itself (not -1 as system calls do).
inline void done(int result, const std::string &what) {
    if (result) throw Error(what + ": " + std::strerror(result > 0 ? result : errno));
}

// System calls return -1 and set errno.
inline int call(int result, const std::string &what) {
    if (result < 0) throw Error(what + ": " + std::strerror(errno));
    return result;
}

// ---- Options -----------------------------------------------------------------------------------

struct Options {
    std::string device;         // -d: RDMA device; the first one when empty
    uint8_t port = 1;           // -i: port of the device, counted from 1
    int gid_index = -1;         // -g: entry of the port's GID table; -1: a RoCE v2 one is chosen
    std::string tcp_port = "18525";  // -p: where the two programs meet
    std::string host;           // client only: where the server runs

    static Options read(int count, char **arguments, bool client) {
        Options options;
        const std::string usage = std::string("usage: ") + arguments[0] + (client ? " HOST" : "") +
                                  " [-d DEVICE] [-i DEVICE_PORT] [-g GID_INDEX] [-p TCP_PORT]";
        for (int c; (c = getopt(count, arguments, "d:i:g:p:")) != -1;) {
            switch (c) {
                case 'd': options.device = optarg; break;
                case 'i': options.port = static_cast<uint8_t>(std::atoi(optarg)); break;
                case 'g': options.gid_index = std::atoi(optarg); break;
                case 'p': options.tcp_port = optarg; break;
                default: throw Error(usage);
            }
        }
        if (client && optind < count) options.host = arguments[optind++];
        if (optind != count || (client && options.host.empty())) throw Error(usage);
        return options;
    }
};

// ---- Owners: each verbs object is released by the function that belongs to it ------------------

template <auto release>
struct Release {
    template <typename T>
    void operator()(T *object) const {
        release(object);
    }
};
template <typename T, auto release>
using Owned = std::unique_ptr<T, Release<release>>;

class Socket {
public:
    Socket() = default;
    explicit Socket(int fd) : fd_(fd) {}
    Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Socket &operator=(Socket &&other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Socket() {
        if (fd_ >= 0) close(fd_);
    }
    int fd() const { return fd_; }

private:
    int fd_ = -1;
};

// ---- The TCP connection: how the two sides tell each other what they cannot know ---------------

// All that a side must know of the other before RDMA is possible.
struct Endpoint {
    uint32_t qpn = 0;      // number of its queue pair, 24 bits
    uint32_t psn = 0;      // packet sequence number that it starts with, 24 bits
    uint16_t lid = 0;      // its port's address on InfiniBand; 0 on RoCE
    ibv_gid gid{};         // its port's address on RoCE (there: an IPv6 or mapped IPv4 address)
    uint64_t address = 0;  // where its buffer is, in its own address space
    uint32_t rkey = 0;     // the key that lets us touch that buffer
    uint32_t length = 0;   // and how long it is
    unsigned mtu = 0;      // the largest packet that its port can take, as enum ibv_mtu

    // Text, so that byte order does not matter and tcpdump shows it.
    std::string text() const {
        char gid_text[INET6_ADDRSTRLEN], line[256];
        inet_ntop(AF_INET6, gid.raw, gid_text, sizeof gid_text);
        std::snprintf(line, sizeof line, "qpn=%x psn=%x lid=%x gid=%s address=%" PRIx64 " rkey=%x length=%x mtu=%u",
                      qpn, psn, lid, gid_text, address, rkey, length, mtu);
        return line;
    }

    static Endpoint parse(const std::string &line) {
        Endpoint end;
        char gid_text[64] = "";
        unsigned lid = 0;
        int found = std::sscanf(line.c_str(),
                                "qpn=%x psn=%x lid=%x gid=%63s address=%" SCNx64 " rkey=%x length=%x mtu=%u",
                                &end.qpn, &end.psn, &lid, gid_text, &end.address, &end.rkey, &end.length, &end.mtu);
        if (found != 8 || inet_pton(AF_INET6, gid_text, end.gid.raw) != 1)
            throw Error("the peer sent `" + line + "`: is it the other half of this example?");
        end.lid = static_cast<uint16_t>(lid);
        return end;
    }
};

// One line each way.
inline std::string exchange_lines(const Socket &tcp, const std::string &mine) {
    const std::string line = mine + "\n";
    // An error here means that the peer is gone, which the answer's absence tells better.
    [[maybe_unused]] const ssize_t sent = send(tcp.fd(), line.data(), line.size(), MSG_NOSIGNAL);
    std::string theirs;
    for (char c = 0; c != '\n' && theirs.size() < 512;) {
        const ssize_t got = recv(tcp.fd(), &c, 1, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            throw Error("the peer closed the TCP connection early; its own message says why");
        call(static_cast<int>(got), "receiving over TCP");
        if (c != '\n') theirs += c;
    }
    return theirs;
}

// ---- One side of a reliable connection ---------------------------------------------------------

class Side {
public:
    static constexpr uint32_t kDepth = 64;            // work requests a queue can hold
    static constexpr size_t kBufferBytes = 1 << 20;

    explicit Side(const Options &options) : port_(options.port) {
        open(options.device);
        choose_address(options.gid_index);
        pd_.reset(made(ibv_alloc_pd(context_.get()), "allocating a protection domain"));

        // Register the memory that the card may touch: it is pinned, and gets an L_Key for our own
        // requests and an R_Key for the peer's. Remote atomics need 8-byte alignment; pages have it.
        buffer_.reset(static_cast<uint8_t *>(std::aligned_alloc(4096, kBufferBytes)));
        if (!buffer_) throw Error("no memory for the buffer");
        std::memset(buffer_.get(), 0, kBufferBytes);
        region_.reset(made(ibv_reg_mr(pd_.get(), buffer_.get(), kBufferBytes, kAccess),
                           "registering memory (if it says `Cannot allocate memory`, raise `ulimit -l`)"));

        // Completions can be polled for, or announced through a channel, which has a file
        // descriptor. Not blocking, so that epoll decides when to read it.
        channel_.reset(made(ibv_create_comp_channel(context_.get()), "creating a completion channel"));
        const int flags = fcntl(channel_->fd, F_GETFL);
        call(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), "making the channel non-blocking");
        cq_.reset(made(ibv_create_cq(context_.get(), 2 * kDepth, nullptr, channel_.get(), 0),
                       "creating a completion queue"));
        create_qp();
        to_init();

        epoll_ = Socket(call(epoll_create1(EPOLL_CLOEXEC), "creating an epoll"));
        watch(channel_->fd, EPOLLIN);
    }

    uint8_t *buffer() { return buffer_.get(); }
    uint32_t lkey() const { return region_->lkey; }
    ibv_qp *qp() { return qp_.get(); }
    const char *device_name() const { return ibv_get_device_name(context_->device); }
    const Endpoint &peer() const { return peer_; }

    // Also ends waiting when the peer closes this connection.
    void watch_peer(const Socket &tcp) {
        tcp_ = tcp.fd();
        watch(tcp_, EPOLLRDHUP);
    }

    // Tells the peer who we are, learns who it is, and brings the queue pair to RTS.
    void connect(const Socket &tcp) {
        std::random_device random;
        mine_.psn = random() & 0xffffff;
        mine_.qpn = qp_->qp_num;
        mine_.address = reinterpret_cast<uintptr_t>(buffer_.get());
        mine_.rkey = region_->rkey;
        mine_.length = kBufferBytes;
        mine_.mtu = attributes_.active_mtu;
        peer_ = Endpoint::parse(exchange_lines(tcp, mine_.text()));
        std::printf("mine:   %s\ntheirs: %s\n", mine_.text().c_str(), peer_.text().c_str());
        to_rtr();
        to_rts();
        // A packet that comes before the peer is in RTR is lost (and sent again after a
        // time-out): wait until both are there.
        if (exchange_lines(tcp, "ready") != "ready") throw Error("the peer is not ready");
    }

    void post_send(ibv_send_wr *chain) {
        ibv_send_wr *bad = nullptr;
        done(ibv_post_send(qp_.get(), chain, &bad), "posting to the send queue");
    }

    void post_receive(uint64_t id, size_t offset, uint32_t length) {
        ibv_sge sge{reinterpret_cast<uintptr_t>(buffer_.get()) + offset, length, lkey()};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        done(ibv_post_recv(qp_.get(), &wr, &bad), "posting to the receive queue");
    }

    // The next completion. Sleeps in epoll while there is none.
    ibv_wc wait() {
        for (;;) {
            ibv_wc wc;
            if (poll(wc)) return wc;
            // Ask for an event at the next completion; one that came between our look and the
            // asking raises none, so look again before going to sleep.
            done(ibv_req_notify_cq(cq_.get(), 0), "asking for a completion event");
            if (poll(wc)) return wc;
            epoll_event ready[2];
            int count;
            do count = epoll_wait(epoll_.fd(), ready, 2, 10'000);
            while (count < 0 && errno == EINTR);
            call(count, "waiting in epoll");
            if (count == 0) throw Error("no completion for 10 s");
            for (int i = 0; i < count; i++) {
                if (ready[i].data.fd == channel_->fd) take_event();
                if (ready[i].data.fd == tcp_) {
                    // A last completion may have come together with the end of the connection.
                    if (poll(wc)) return wc;
                    throw Error("the peer went away");
                }
            }
        }
    }

    // The next completion, of a request that has not failed; `what` names it in the error message.
    ibv_wc completed(const char *what) {
        const ibv_wc wc = wait();
        if (wc.status != IBV_WC_SUCCESS) {
            char text[256];
            std::snprintf(text, sizeof text, "%s failed: %s (status %d, vendor syndrome %#x)", what,
                          ibv_wc_status_str(wc.status), wc.status, wc.vendor_err);
            throw Error(text);
        }
        return wc;
    }

    // The completion of a certain request, where no other can come first.
    ibv_wc expect(uint64_t id, const char *what) {
        const ibv_wc wc = completed(what);
        if (wc.wr_id != id) throw Error(std::string(what) + ": another request was completed first");
        return wc;
    }

    unsigned events() const { return events_; }

private:
    static constexpr int kAccess =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

    void open(const std::string &name) {
        int count = 0;
        Owned<ibv_device *, ibv_free_device_list> list(
            made(ibv_get_device_list(&count), "listing RDMA devices (load the card's driver, or use `verbena run --`)"));
        ibv_device *chosen = nullptr;
        std::string names;
        for (int i = 0; i < count; i++) {
            const std::string found = ibv_get_device_name(list.get()[i]);
            if (!chosen && (name.empty() || name == found)) chosen = list.get()[i];
            names += " " + found;
        }
        if (count == 0)
            throw Error("there is no RDMA device; without hardware, start this program with `verbena run --`");
        if (!chosen) throw Error("there is no device " + name + "; there are:" + names);
        context_.reset(made(ibv_open_device(chosen), "opening " + std::string(ibv_get_device_name(chosen))));
    }

    // Who we are on the network: a LID on InfiniBand, an entry of the GID table on RoCE.
    void choose_address(int index) {
        const std::string port = "port " + std::to_string(port_) + " of " + device_name();
        done(ibv_query_port(context_.get(), port_, &attributes_), "asking for " + port);
        if (attributes_.state != IBV_PORT_ACTIVE) {
            throw Error(port + " is not active but " + ibv_port_state_str(attributes_.state) +
                        ": check the cable, or `ip link set ... up`");
        }
        mine_.lid = attributes_.lid;
        if (index < 0) {
            // RoCE v2 travels in UDP and can be routed. An IPv4 address where there is one.
            for (int i = 0; i < attributes_.gid_tbl_len; i++) {
                ibv_gid_entry entry;
                if (ibv_query_gid_ex(context_.get(), port_, i, &entry, 0) || entry.gid_type != IBV_GID_TYPE_ROCE_V2)
                    continue;
                const bool ipv4 = IN6_IS_ADDR_V4MAPPED(reinterpret_cast<in6_addr *>(entry.gid.raw));
                if (index < 0 || ipv4) index = i;
                if (ipv4) break;
            }
        }
        if (index < 0 && attributes_.link_layer == IBV_LINK_LAYER_ETHERNET)
            throw Error(port + " has no RoCE v2 GID: give its network interface an IP address, or choose one with -g");
        gid_index_ = static_cast<uint8_t>(index < 0 ? 0 : index);
        done(ibv_query_gid(context_.get(), port_, gid_index_, &mine_.gid),
             "reading GID " + std::to_string(gid_index_) + " of " + port);
    }

    void create_qp() {
        ibv_qp_init_attr init{};
        init.qp_type = IBV_QPT_RC;  // reliable connection: acknowledged, in order, READ and atomics
        init.send_cq = cq_.get();   // one queue for both kinds of completions
        init.recv_cq = cq_.get();
        init.cap.max_send_wr = kDepth;
        init.cap.max_recv_wr = kDepth;
        init.cap.max_send_sge = 1;  // pieces of memory that one request may gather
        init.cap.max_recv_sge = 1;
        init.sq_sig_all = 0;        // a request makes a completion only where it asks for one
        qp_.reset(made(ibv_create_qp(pd_.get(), &init), "creating a queue pair"));
    }

    // RESET to INIT: receives may be posted from here on.
    void to_init() {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_INIT;
        attr.pkey_index = 0;             // entry 0 is the default partition
        attr.port_num = port_;
        attr.qp_access_flags = kAccess;  // what the peer may do; the memory region must allow it too
        done(ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
             "moving the queue pair to INIT");
    }

    // INIT to RTR, ready to receive: now the peer must be known.
    void to_rtr() {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = static_cast<ibv_mtu>(std::min(mine_.mtu, peer_.mtu));  // bytes in a packet: the same on both sides
        attr.dest_qp_num = peer_.qpn;
        attr.rq_psn = peer_.psn;                 // the number of the first packet that comes
        attr.max_dest_rd_atomic = 4;             // READs and atomics of the peer that we hold at once
        attr.min_rnr_timer = 12;                 // 0.64 ms: how long the peer waits when we have no receive posted
        attr.ah_attr.port_num = port_;
        attr.ah_attr.sl = 0;                     // service level (on RoCE: the Ethernet priority)
        attr.ah_attr.dlid = peer_.lid;           // the way on InfiniBand ...
        // ... and on RoCE, where the GID is all there is.
        attr.ah_attr.is_global = attributes_.link_layer == IBV_LINK_LAYER_ETHERNET || peer_.lid == 0;
        attr.ah_attr.grh.dgid = peer_.gid;
        attr.ah_attr.grh.sgid_index = gid_index_;  // which of our own addresses packets come from
        attr.ah_attr.grh.hop_limit = 64;           // routers on the way, as TTL in IP
        attr.ah_attr.grh.traffic_class = 0;        // DSCP and ECN bits
        done(ibv_modify_qp(qp_.get(), &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
             "moving the queue pair to RTR (wrong GID index? try -g)");
    }

    // RTR to RTS, ready to send: how to send, and when to give up.
    void to_rts() {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_RTS;
        attr.sq_psn = mine_.psn;  // the number of our first packet, as told to the peer
        attr.timeout = 14;        // 4.096 us * 2^14 = 67 ms without an ACK: send again
        attr.retry_cnt = 7;       // that often, then the request fails with `transport retry counter exceeded`
        attr.rnr_retry = 7;       // receiver not ready: 7 means try for ever
        attr.max_rd_atomic = 4;   // READs and atomics that we have on the way; the peer's max_dest_rd_atomic
        done(ibv_modify_qp(qp_.get(), &attr,
                           IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_MAX_QP_RD_ATOMIC),
             "moving the queue pair to RTS");
    }

    void watch(int fd, uint32_t events) {
        epoll_event event{};
        event.events = events;
        event.data.fd = fd;
        call(epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event), "adding to the epoll");
    }

    bool poll(ibv_wc &wc) {
        const int found = ibv_poll_cq(cq_.get(), 1, &wc);
        if (found < 0) throw Error("polling the completion queue failed");
        return found == 1;
    }

    void take_event() {
        ibv_cq *cq = nullptr;
        void *context = nullptr;
        if (ibv_get_cq_event(channel_.get(), &cq, &context)) {
            if (errno == EAGAIN) return;
            call(-1, "reading a completion event");
        }
        // Every event must be acknowledged before its queue can be destroyed.
        ibv_ack_cq_events(cq, 1);
        events_++;
    }

    uint8_t port_;
    uint8_t gid_index_ = 0;
    ibv_port_attr attributes_{};
    Endpoint mine_, peer_;
    unsigned events_ = 0;
    int tcp_ = -1;
    // In this order: members are destroyed from the last to the first, and verbs objects must go
    // before those that they were made from.
    Owned<ibv_context, ibv_close_device> context_;
    Owned<ibv_pd, ibv_dealloc_pd> pd_;
    Owned<uint8_t, std::free> buffer_;
    Owned<ibv_mr, ibv_dereg_mr> region_;
    Owned<ibv_comp_channel, ibv_destroy_comp_channel> channel_;
    Owned<ibv_cq, ibv_destroy_cq> cq_;
    Owned<ibv_qp, ibv_destroy_qp> qp_;
    Socket epoll_;
};

// ---- What the two programs agree upon ----------------------------------------------------------

// The server's buffer: a counter for atomics, a mailbox for messages, and the rest for data.
constexpr size_t kCounterAt = 0;
constexpr size_t kMailboxAt = 4096;
constexpr uint32_t kMessageBytes = 64;
constexpr size_t kDataAt = 8192;
constexpr uint32_t kBatch = 16;
constexpr uint32_t kPieceBytes = 4096;
constexpr int kRoundTrips = 1000;
constexpr uint64_t kSwapped = 0xc0ffee;

inline uint8_t pattern(size_t i) { return static_cast<uint8_t>(i * 31 + (i >> 8)); }
