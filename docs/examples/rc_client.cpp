// The active half: WRITE and READ, a batch in one post, atomics, and messages that wake the
// sleeper at the other end.
//
//   rc_client HOST [-d DEVICE] [-i DEVICE_PORT] [-g GID_INDEX] [-p TCP_PORT]

#include <chrono>

#include "rc_common.hpp"

static Socket connect_to(const std::string &host, const std::string &port) {
    addrinfo hints{}, *list = nullptr;
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list))
        throw Error(host + ": " + gai_strerror(error));
    Owned<addrinfo, freeaddrinfo> owner(list);
    int reason = ECONNREFUSED;
    for (addrinfo *entry = list; entry; entry = entry->ai_next) {
        Socket socket(::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, 0));
        if (socket.fd() >= 0 && !::connect(socket.fd(), entry->ai_addr, entry->ai_addrlen)) return socket;
        reason = errno;
    }
    throw Error("connecting to " + host + " port " + port + ": " + std::strerror(reason) +
                " (start rc_server there first)");
}

// The client's own buffer: what it sends, and what comes back.
constexpr size_t kSourceAt = 64 << 10;
constexpr size_t kBackAt = 512 << 10;

class Client {
public:
    explicit Client(Side &side) : side_(side) {}

    // One request: `local` and `remote` are offsets into the two buffers.
    ibv_send_wr request(ibv_wr_opcode opcode, uint64_t id, ibv_sge &sge, size_t local, size_t remote,
                        uint32_t length) {
        sge = {reinterpret_cast<uintptr_t>(side_.buffer()) + local, length, side_.lkey()};
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = side_.peer().address + remote;
        wr.wr.rdma.rkey = side_.peer().rkey;
        return wr;
    }

    void write_and_read_back() {
        const char message[] = "written into the server's memory, without the server noticing";
        std::memcpy(side_.buffer() + kSourceAt, message, sizeof message);
        ibv_sge sge;
        ibv_send_wr write = request(IBV_WR_RDMA_WRITE, 1, sge, kSourceAt, kDataAt, sizeof message);
        side_.post_send(&write);
        side_.expect(1, "the WRITE");
        read_back(kDataAt, sizeof message);
        if (std::memcmp(side_.buffer() + kBackAt, message, sizeof message) != 0)
            throw Error("what was read back is not what was written");
        std::printf("WRITE, READ back: equal\n");
    }

    // Requests linked to a list cost one call and one doorbell together. Only the last makes a
    // completion; as a queue works in order, it stands for all before it.
    void batch() {
        const size_t bytes = kBatch * kPieceBytes;
        for (size_t i = 0; i < bytes; i++) side_.buffer()[kSourceAt + i] = pattern(i);
        std::vector<ibv_sge> pieces(kBatch);
        std::vector<ibv_send_wr> chain;
        for (uint32_t i = 0; i < kBatch; i++) {
            const size_t at = i * kPieceBytes;
            chain.push_back(request(IBV_WR_RDMA_WRITE, 100 + i, pieces[i], kSourceAt + at, kDataAt + at, kPieceBytes));
            chain.back().send_flags = i + 1 == kBatch ? IBV_SEND_SIGNALED : 0;
        }
        for (uint32_t i = 0; i + 1 < kBatch; i++) chain[i].next = &chain[i + 1];
        side_.post_send(chain.data());
        side_.expect(100 + kBatch - 1, "the batch of WRITEs");
        read_back(kDataAt, bytes);
        if (std::memcmp(side_.buffer() + kBackAt, side_.buffer() + kSourceAt, bytes) != 0)
            throw Error("the batch is not what was written");
        std::printf("batch of %u WRITEs in one post, one completion: equal\n", kBatch);
    }

    // Atomics work on 8 aligned bytes of the server and give back what was there before.
    void atomics() {
        for (uint64_t i = 0; i < 10; i++) {
            const uint64_t old = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0);
            if (old != 5 * i) throw Error("FETCH_ADD found " + std::to_string(old));
        }
        uint64_t old = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 49, 1);
        if (old != 50) throw Error("CMP_SWAP found " + std::to_string(old));
        // It was 50, not 49, so nothing was swapped; now it will be.
        old = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 50, kSwapped);
        if (old != 50) throw Error("CMP_SWAP changed what it should have left alone");
        read_back(kCounterAt, sizeof old);
        std::memcpy(&old, side_.buffer() + kBackAt, sizeof old);
        if (old != kSwapped) throw Error("CMP_SWAP did not swap");
        std::printf("10 FETCH_ADDs, 2 CMP_SWAPs: as expected\n");
    }

    // Both sides sleep in epoll until the other's message comes.
    void messages() {
        using Clock = std::chrono::steady_clock;
        const auto start = Clock::now();
        for (int i = 0; i < kRoundTrips; i++) {
            const std::string message = "message " + std::to_string(i);
            side_.post_receive(201, kBackAt, kMessageBytes);
            send(message);
            // Two completions, in either order: ours of the SEND, and the answer's.
            for (int left = 2; left > 0; left--) {
                const ibv_wc wc = side_.wait();
                if (wc.status != IBV_WC_SUCCESS)
                    throw Error(message + ": " + ibv_wc_status_str(wc.status));
                if (wc.opcode & IBV_WC_RECV) {
                    const std::string answer(reinterpret_cast<char *>(side_.buffer() + kBackAt), wc.byte_len);
                    if (answer != message) throw Error("the answer to `" + message + "` was `" + answer + "`");
                }
            }
        }
        const std::chrono::duration<double, std::micro> took = Clock::now() - start;
        std::printf("%d messages and answers through epoll: %.1f us each, woken by %u events\n", kRoundTrips,
                    took.count() / kRoundTrips, side_.events());
        send("bye");
        side_.expect(200, "the last SEND");
    }

private:
    void read_back(size_t remote, size_t length) {
        ibv_sge sge;
        ibv_send_wr read = request(IBV_WR_RDMA_READ, 2, sge, kBackAt, remote, static_cast<uint32_t>(length));
        side_.post_send(&read);
        side_.expect(2, "the READ");
    }

    uint64_t atomic(ibv_wr_opcode opcode, uint64_t compare_or_add, uint64_t swap) {
        ibv_sge sge;
        ibv_send_wr wr = request(opcode, 3, sge, kBackAt, kCounterAt, sizeof(uint64_t));
        wr.wr.atomic.remote_addr = side_.peer().address + kCounterAt;
        wr.wr.atomic.rkey = side_.peer().rkey;
        wr.wr.atomic.compare_add = compare_or_add;
        wr.wr.atomic.swap = swap;
        side_.post_send(&wr);
        side_.expect(3, "the atomic");
        uint64_t old;
        std::memcpy(&old, side_.buffer() + kBackAt, sizeof old);
        return old;
    }

    void send(const std::string &message) {
        std::memcpy(side_.buffer() + kSourceAt, message.data(), message.size());
        ibv_sge sge{reinterpret_cast<uintptr_t>(side_.buffer()) + kSourceAt, static_cast<uint32_t>(message.size()),
                    side_.lkey()};
        ibv_send_wr wr{};
        wr.wr_id = 200;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        side_.post_send(&wr);
    }

    Side &side_;
};

static int run(const Options &options) {
    Side side(options);
    std::printf("device %s, port %d\n", side.device_name(), options.port);
    const Socket tcp = connect_to(options.host, options.tcp_port);
    side.connect(tcp);
    side.watch_peer(tcp);
    Client client(side);
    client.write_and_read_back();
    client.batch();
    client.atomics();
    client.messages();
    exchange_lines(tcp, "closing");
    std::printf("client: OK\n");
    return 0;
}

int main(int count, char **arguments) {
    try {
        return run(Options::read(count, arguments, true));
    } catch (const std::exception &error) {
        std::fflush(stdout);
        std::fprintf(stderr, "rc_client: %s\n", error.what());
        return 1;
    }
}
