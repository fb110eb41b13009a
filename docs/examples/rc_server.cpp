// The passive half: offers a buffer, and answers messages. WRITE, READ and atomics of the client
// happen without a line of code here.
//
//   rc_server [-d DEVICE] [-i DEVICE_PORT] [-g GID_INDEX] [-p TCP_PORT]

#include "rc_common.hpp"

static Socket accept_one(const std::string &port) {
    addrinfo hints{}, *list = nullptr;
    hints.ai_family = AF_INET6;  // takes IPv4 too
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    if (const int error = getaddrinfo(nullptr, port.c_str(), &hints, &list))
        throw Error("TCP port " + port + ": " + gai_strerror(error));
    Owned<addrinfo, freeaddrinfo> owner(list);
    Socket listener(socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    sockaddr *address = list->ai_addr;
    socklen_t length = list->ai_addrlen;
    if (listener.fd() < 0) {
        // A machine without IPv6.
        any.sin_family = AF_INET;
        any.sin_port = htons(static_cast<uint16_t>(std::atoi(port.c_str())));
        address = reinterpret_cast<sockaddr *>(&any);
        length = sizeof any;
        listener = Socket(call(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "making a TCP socket"));
    }
    const int yes = 1;
    call(setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), "setting SO_REUSEADDR");
    call(bind(listener.fd(), address, length), "binding TCP port " + port + " (choose another with -p)");
    call(listen(listener.fd(), 1), "listening on TCP port " + port);
    std::printf("waiting for the client on TCP port %s\n", port.c_str());
    std::fflush(stdout);
    return Socket(call(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC), "accepting the client"));
}

static int serve(const Options &options) {
    Side side(options);
    std::printf("device %s, port %d\n", side.device_name(), options.port);
    const Socket tcp = accept_one(options.tcp_port);
    // An answer's wr_id is the number of its slot.
    enum : uint64_t { SLOTS = 2, RECEIVE = SLOTS };
    const size_t answers_at = kMailboxAt + kMessageBytes;
    // Before the client can send, there must be somewhere to receive.
    side.post_receive(RECEIVE, kMailboxAt, kMessageBytes);
    side.connect(tcp);
    side.watch_peer(tcp);
    int answered = 0;
    // Completions of the two queues come in any order: when the ACK of an answer is lost, the client's
    // next message is here before it, and the answer may have to be sent again. So its slot stays as it
    // is until the SEND is completed, and the next answer has another one.
    std::vector<uint64_t> free = {0, 1};
    bool waiting = false;  // is there a message in the mailbox?
    uint32_t bytes = 0;    // and how long is it?
    for (;;) {
        const ibv_wc wc = side.completed("receiving or answering");
        if (wc.wr_id == RECEIVE) {
            waiting = true;
            bytes = wc.byte_len;
        } else {
            free.push_back(wc.wr_id);
        }
        if (!waiting || free.empty()) continue;
        const uint8_t *text = side.buffer() + kMailboxAt;
        if (std::string(text, text + bytes) == "bye") break;
        const uint64_t slot = free.back();
        free.pop_back();
        const size_t answer_at = answers_at + slot * kMessageBytes;
        std::memcpy(side.buffer() + answer_at, text, bytes);
        ibv_sge sge{reinterpret_cast<uintptr_t>(side.buffer()) + answer_at, bytes, side.lkey()};
        ibv_send_wr wr{};
        wr.wr_id = slot;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        // Post the next receive before the answer, which lets the client send again.
        waiting = false;
        side.post_receive(RECEIVE, kMailboxAt, kMessageBytes);
        side.post_send(&wr);
        answered++;
    }
    while (free.size() < SLOTS) free.push_back(side.completed("answering").wr_id);
    std::printf("answered %d messages, woken by %u events\n", answered, side.events());

    // What the client did to our memory meanwhile.
    size_t wrong = 0;
    for (size_t i = 0; i < kBatch * kPieceBytes; i++) wrong += side.buffer()[kDataAt + i] != pattern(i);
    uint64_t counter;
    std::memcpy(&counter, side.buffer() + kCounterAt, sizeof counter);
    std::printf("the batch has %zu wrong bytes, the counter is %#" PRIx64 "\n", wrong, counter);
    if (wrong || counter != kSwapped) throw Error("the buffer is not what the client should have made of it");
    // The client keeps its queue pair until we have said so: the last ACK must still find it.
    exchange_lines(tcp, "closing");
    std::printf("server: OK\n");
    return 0;
}

int main(int count, char **arguments) {
    try {
        return serve(Options::read(count, arguments, false));
    } catch (const std::exception &error) {
        std::fflush(stdout);
        std::fprintf(stderr, "rc_server: %s\n", error.what());
        return 1;
    }
}
