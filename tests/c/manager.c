/* Connections by address, each made and ended in its own way, and all that the connection manager says of them.
 *
 *   manager serve OWN                   listens at the address OWN for all cases; says `serving`; ends after ten minutes
 *   manager connect OWN SERVER          goes through the cases that take no time and kill nobody, one after the other, from OWN
 *   manager connect OWN SERVER CASE     only this case
 *   manager owner OWN...                says of which device and port each address is, also for who listens there
 *   manager alone OWN NOBODY FOREIGN    errors, for which it needs no peer; nobody on the link has NOBODY, and FOREIGN is elsewhere
 *
 * Each line begins with the case. No queue pair is used: QPNs are those of the case, so that two managers can be compared
 * to the bit. */
#define _GNU_SOURCE
#include "rig.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>

enum { FIRST_PORT = 7400, CLIENTS = 7500, LIMIT = 120000, A_WHILE = 300000, LONGER_THAN_A_TIMEOUT = 6 };

/* What a side does with a connection. */
enum deed { ACCEPT, REJECT, DESTROY, ACCEPT_AND_DESTROY, NOTHING, LINGER, DIE };

static const struct {
    const char *name;
    enum rdma_port_space space;
    /* With a request, and once connected. */
    enum deed server, server_then;
    /* With the reply, and once connected; before the reply, if `impatient`. */
    enum deed client, client_then;
    int absent, rich, options, impatient, twice, slow;
} cases[] = {
    { "plain", RDMA_PS_TCP, .client_then = DESTROY },
    { "all parameters", RDMA_PS_TCP, .server_then = DESTROY, .rich = 1 },
    { "options", RDMA_PS_TCP, .client_then = DESTROY, .options = 1 },
    { "rejected", RDMA_PS_TCP, .server = REJECT },
    { "nobody listens", RDMA_PS_TCP, .absent = 1 },
    { "request destroyed", RDMA_PS_TCP, .server = DESTROY },
    { "given up", RDMA_PS_TCP, .server = NOTHING, .impatient = 1 },
    { "reply rejected", RDMA_PS_TCP, .client = REJECT },
    { "reply destroyed", RDMA_PS_TCP, .client = DESTROY },
    { "destroyed after the reply", RDMA_PS_TCP, .server = ACCEPT_AND_DESTROY, .client = NOTHING },
    { "the same queue pair again", RDMA_PS_TCP, .client_then = NOTHING, .twice = 1 },
    { "datagrams", RDMA_PS_UDP, .rich = 1 },
    { "datagrams rejected", RDMA_PS_UDP, .server = REJECT },
    { "datagrams to nobody", RDMA_PS_UDP, .absent = 1 },
    { "datagrams destroyed", RDMA_PS_UDP, .server = DESTROY },
    { "slow server", RDMA_PS_TCP, .server = LINGER, .client_then = DESTROY, .slow = 1 },
    { "slow client", RDMA_PS_TCP, .client = LINGER, .client_then = DESTROY, .slow = 1 },
    { "client dies", RDMA_PS_TCP, .client_then = DIE },
    { "server dies", RDMA_PS_TCP, .server_then = DIE },
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* The addresses with a port. */
static struct sockaddr_storage with_port(const char *text, int port)
{
    struct addrinfo *found, hints = { .ai_flags = AI_NUMERICHOST };
    CHECK(!getaddrinfo(text, NULL, &hints, &found));
    struct sockaddr_storage address = { 0 };
    memcpy(&address, found->ai_addr, found->ai_addrlen);
    if (address.ss_family == AF_INET)
        ((struct sockaddr_in *)&address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)&address)->sin6_port = htons(port);
    freeaddrinfo(found);
    return address;
}

/* QPNs of a case: the two families are two rounds, and a number is not used again soon. */
static uint32_t qpn(int of, int server, int family)
{
    return 0x1000 + of + 0x100 * server + 0x200 * (family == AF_INET6);
}

static struct rdma_conn_param wishes(int of, int server, int family)
{
    static uint8_t bytes[40];
    struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7, .qp_num = qpn(of, server, family) };
    if (cases[of].rich) {
        for (unsigned i = 0; i < sizeof bytes; i++)
            bytes[i] = (server ? 0x80 : 0x40) + i;
        param = (struct rdma_conn_param){
            .private_data = bytes, .private_data_len = server ? 40 : 20, .responder_resources = server ? 3 : 5,
            .initiator_depth = server ? 5 : 3, .flow_control = 1, .retry_count = 2, .rnr_retry_count = server ? 4 : 3,
            .srq = 1, .qp_num = qpn(of, server, family),
        };
    }
    return param;
}

static void print_bytes(const void *bytes, int count)
{
    const uint8_t *b = bytes;
    int used = count;
    while (used && !b[used - 1])
        used--;
    printf(" private %d:", count);
    for (int i = 0; i < used; i++)
        printf("%02x", b[i]);
}

static void print_way(const struct ibv_ah_attr *way)
{
    printf(" way: global %d port %d class %d hops %d label %x LID %d SL %d", way->is_global, way->port_num,
           way->grh.traffic_class, way->grh.hop_limit, way->grh.flow_label, way->dlid, way->sl);
}

/* Steps of a queue pair of this connection. */
static void print_steps(int of, const char *side, struct rdma_cm_id *id)
{
    for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
        struct ibv_qp_attr attr = { .qp_state = state };
        int mask;
        if (rdma_init_qp_attr(id, &attr, &mask)) {
            printf("%s: %s to %d: errno %d\n", cases[of].name, side, state, errno);
            continue;
        }
        printf("%s: %s to %d: mask %x port %d access %x MTU %d QPN %x reads %d %d timer %d time-out %d retries %d %d",
               cases[of].name, side, state, mask, attr.port_num, attr.qp_access_flags, attr.path_mtu, attr.dest_qp_num,
               attr.max_rd_atomic, attr.max_dest_rd_atomic, attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry);
        if (state == IBV_QPS_RTR)
            print_way(&attr.ah_attr);
        printf("\n");
    }
}

static void print_event(int of, const char *side, const struct rdma_cm_event *event)
{
    printf("%s: %s %s %d", cases[of].name, side, rdma_event_str(event->event), event->status);
    if (cases[of].space == RDMA_PS_UDP) {
        print_bytes(event->param.ud.private_data, event->param.ud.private_data_len);
        printf(" QPN %x Q_Key %x", event->param.ud.qp_num, event->param.ud.qkey);
        if (event->event == RDMA_CM_EVENT_ESTABLISHED)
            print_way(&event->param.ud.ah_attr);
    } else {
        const struct rdma_conn_param *param = &event->param.conn;
        print_bytes(param->private_data, param->private_data_len);
        printf(" reads %d %d flow control %d retries %d %d SRQ %d QPN %x", param->responder_resources, param->initiator_depth,
               param->flow_control, param->retry_count, param->rnr_retry_count, param->srq, param->qp_num);
    }
    printf("\n");
}

static int says(int of, const char *what, int result)
{
    if (result)
        printf("%s: %s: errno %d\n", cases[of].name, what, errno);
    return result;
}

/* The next event; NULL after `limit` ms without one. */
static struct rdma_cm_event *next_event(struct rdma_event_channel *channel, int limit)
{
    fflush(stdout);
    struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event;
    if (poll(&ready, 1, limit) <= 0)
        return NULL;
    CHECK(!rdma_get_cm_event(channel, &event));
    return event;
}

static void destroy(struct rdma_cm_id *id)
{
    CHECK(!rdma_destroy_id(id));
}

/* The server. */

/* A request that is answered late, meanwhile others are, and when. */
static struct {
    struct rdma_cm_id *id;
    int of;
    double at;
} late[2];
enum { LATE = sizeof late / sizeof late[0] };

static void accept_it(int of, struct rdma_cm_id *id)
{
    struct rdma_conn_param param = wishes(of, 1, rdma_get_local_addr(id)->sa_family);
    says(of, "accept", rdma_accept(id, &param));
}

static void asked(int of, struct rdma_cm_id *id)
{
    int place = 0;
    switch (cases[of].server) {
    case ACCEPT:
        accept_it(of, id);
        break;
    case REJECT:
        says(of, "reject", rdma_reject(id, "no, thank you", 13));
        destroy(id);
        break;
    case DESTROY:
        destroy(id);
        break;
    case ACCEPT_AND_DESTROY:
        accept_it(of, id);
        /* The client says its steps meanwhile, which it cannot once the end has come. A reply is repeated after 4 s. */
        usleep(10 * A_WHILE);
        destroy(id);
        break;
    case LINGER:
        while (late[place].id)
            CHECK(++place < LATE);
        late[place].id = id, late[place].of = of, late[place].at = now() + LONGER_THAN_A_TIMEOUT;
        break;
    default:
        break;
    }
}

static void serve(const char *own)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    CHECK(channel);
    for (int of = 0; of < CASES; of++) {
        struct rdma_cm_id *id;
        struct sockaddr_storage address = with_port(own, FIRST_PORT + of);
        if (cases[of].absent)
            continue;
        CHECK(!rdma_create_id(channel, &id, (void *)(intptr_t)of, cases[of].space));
        CHECK(!rdma_bind_addr(id, (struct sockaddr *)&address));
        CHECK(!rdma_listen(id, 8));
    }
    printf("serving\n");
    for (double end = now() + 5 * LIMIT / 1000; now() < end;) {
        for (int i = 0; i < LATE; i++)
            if (late[i].id && late[i].at < now())
                accept_it(late[i].of, late[i].id), late[i].id = NULL;
        struct rdma_cm_event *event = next_event(channel, 100);
        if (!event)
            continue;
        struct rdma_cm_id *id = event->id;
        int of = (intptr_t)id->context;
        enum rdma_cm_event_type kind = event->event;
        print_event(of, "server", event);
        if (kind == RDMA_CM_EVENT_CONNECT_REQUEST && cases[of].space == RDMA_PS_TCP)
            print_steps(of, "server", id);
        CHECK(!rdma_ack_cm_event(event));
        switch (kind) {
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            asked(of, id);
            break;
        case RDMA_CM_EVENT_ESTABLISHED:
            if (cases[of].server_then == DESTROY)
                says(of, "disconnect", rdma_disconnect(id));
            if (cases[of].server_then == DIE) {
                fflush(stdout);
                raise(SIGKILL);
            }
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_REJECTED:
        case RDMA_CM_EVENT_UNREACHABLE:
            destroy(id);
            break;
        default:
            break;
        }
    }
}

/* The client. */

/* Resolves address and route, and says what that gives. */
static int resolve(struct rdma_event_channel *channel, int of, struct rdma_cm_id *id, const char *own, int port, const char *to)
{
    struct sockaddr_storage from = with_port(own, port), server = with_port(to, FIRST_PORT + of);
    if (says(of, "resolve", rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&server, 2000)))
        return 1;
    for (int step = 0; step < 2; step++) {
        struct rdma_cm_event *event = next_event(channel, LIMIT);
        CHECK(event);
        int wanted = event->event == (step ? RDMA_CM_EVENT_ROUTE_RESOLVED : RDMA_CM_EVENT_ADDR_RESOLVED);
        if (!wanted)
            print_event(of, "client", event);
        CHECK(!rdma_ack_cm_event(event));
        if (!wanted || (!step && says(of, "route", rdma_resolve_route(id, 2000))))
            return 1;
    }
    return 0;
}

static struct rdma_cm_id *request(struct rdma_event_channel *channel, int of, const char *own, int port, const char *to)
{
    struct rdma_cm_id *id;
    CHECK(!rdma_create_id(channel, &id, NULL, cases[of].space));
    if (cases[of].options) {
        uint8_t tos = 0x68, timeout = 19;
        says(of, "TOS", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
        says(of, "time-out", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1));
    }
    if (resolve(channel, of, id, own, port, to))
        die("%s: no way to %s", cases[of].name, to);
    struct rdma_conn_param param = wishes(of, 0, rdma_get_local_addr(id)->sa_family);
    says(of, "connect", rdma_connect(id, &param));
    return id;
}

/* Until the end of a connection. */
static void attend(struct rdma_event_channel *channel, int of, const char *own, const char *to, struct rdma_cm_id *id)
{
    struct rdma_cm_id *second = NULL;
    for (;;) {
        struct rdma_cm_event *event = next_event(channel, LIMIT);
        if (!event)
            die("%s: no event within %d ms", cases[of].name, LIMIT);
        enum rdma_cm_event_type kind = event->event;
        print_event(of, event->id == id ? "client" : "second", event);
        int first = event->id == id;
        CHECK(!rdma_ack_cm_event(event));
        enum deed deed = NOTHING;
        if (kind == RDMA_CM_EVENT_CONNECT_RESPONSE) {
            print_steps(of, "client", id);
            deed = cases[of].client;
            if (deed == LINGER)
                sleep(LONGER_THAN_A_TIMEOUT);
            if (deed == ACCEPT || deed == LINGER) {
                says(of, "establish", rdma_establish(id));
                deed = cases[of].client_then;
                if (deed == DESTROY) {
                    /* The server has to know of the connection before it ends. */
                    usleep(A_WHILE);
                    says(of, "disconnect", rdma_disconnect(id));
                    deed = NOTHING;
                }
                if (cases[of].twice)
                    second = request(channel, of, own, CLIENTS + CASES + of, to);
            } else if (deed == REJECT) {
                says(of, "reject", rdma_reject(id, "not so", 6));
            }
        }
        if (deed == DIE) {
            usleep(A_WHILE);
            fflush(stdout);
            raise(SIGKILL);
        }
        int over = deed == REJECT || deed == DESTROY || kind == RDMA_CM_EVENT_REJECTED || kind == RDMA_CM_EVENT_UNREACHABLE ||
                   kind == RDMA_CM_EVENT_DISCONNECTED || (kind == RDMA_CM_EVENT_ESTABLISHED && cases[of].space == RDMA_PS_UDP);
        if (over && !first) {
            destroy(second);
            second = NULL;
        } else if (over) {
            destroy(id);
            id = NULL;
        }
        if (!id && !second)
            break;
    }
}

static void run(struct rdma_event_channel *channel, int of, const char *own, const char *to)
{
    struct rdma_cm_id *id = request(channel, of, own, CLIENTS + of, to);
    if (cases[of].impatient) {
        usleep(A_WHILE);
        destroy(id);
    } else {
        attend(channel, of, own, to, id);
    }
    /* What the server has still to do comes before what it does in the next case. */
    usleep(A_WHILE / 3);
}

/* Without a peer. */

static void owner(const char *own)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    CHECK(channel);
    struct sockaddr_storage here = with_port(own, 0);
    struct rdma_cm_id *id;
    CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    CHECK(!rdma_bind_addr(id, (struct sockaddr *)&here));
    CHECK(id->verbs);
    printf("%s: %s port %d\n", own, ibv_get_device_name(id->verbs->device), id->port_num);
    /* The way from here to here, as libfabric asks for it to find the device of its own address. */
    CHECK(!rdma_listen(id, 1));
    struct rdma_cm_id *self;
    CHECK(!rdma_create_id(NULL, &self, NULL, RDMA_PS_TCP));
    CHECK(!rdma_resolve_addr(self, NULL, (struct sockaddr *)&here, LIMIT));
    printf("to itself: %s port %d\n", ibv_get_device_name(self->verbs->device), self->port_num);
    destroy(self);
    destroy(id);
    rdma_destroy_event_channel(channel);
}

static int called(const char *what, int result)
{
    printf("%s: %s\n", what, result ? strerrorname_np(errno) : "done");
    return result;
}

static void alone(const char *own, const char *nobody, const char *elsewhere)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    CHECK(channel);
    struct sockaddr_storage here = with_port(own, FIRST_PORT), foreign = with_port(elsewhere, FIRST_PORT);
    struct rdma_cm_id *id, *other;
    CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) && !rdma_create_id(channel, &other, NULL, RDMA_PS_TCP));
    called("bind to a foreign address", rdma_bind_addr(id, (struct sockaddr *)&foreign));
    called("bind", rdma_bind_addr(id, (struct sockaddr *)&here));
    called("bind again", rdma_bind_addr(id, (struct sockaddr *)&here));
    called("bind another to that port", rdma_bind_addr(other, (struct sockaddr *)&here));
    called("listen", rdma_listen(id, 4));
    called("listen again", rdma_listen(id, 4));
    called("resolve a listener", rdma_resolve_addr(id, NULL, (struct sockaddr *)&here, 100));
    called("reject without a request", rdma_reject(other, NULL, 0));
    called("disconnect without a connection", rdma_disconnect(other));
    destroy(id);
    destroy(other);
    struct sockaddr_storage to = with_port(nobody, FIRST_PORT);
    CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    for (int tries = 0; tries < 2; tries++) {
        double begin = now();
        const char *what = tries ? "resolve it again" : "resolve an address of nobody";
        called(what, rdma_resolve_addr(id, (struct sockaddr *)&here, (struct sockaddr *)&to, 600));
        struct rdma_cm_event *event = next_event(channel, LIMIT);
        CHECK(event);
        double took = now() - begin;
        printf("%s: %s %s, %s\n", what, rdma_event_str(event->event), strerrorname_np(-event->status),
               took > 0.5 ? "in time" : "at once");
        CHECK(!rdma_ack_cm_event(event));
    }
    destroy(id);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && !strcmp(argv[1], "serve"))
        return serve(argv[2]), 0;
    if (argc > 2 && !strcmp(argv[1], "owner")) {
        for (int i = 2; i < argc; i++)
            owner(argv[i]);
        return 0;
    }
    CHECK(argc >= 4);
    if (argc == 5 && !strcmp(argv[1], "alone"))
        return alone(argv[2], argv[3], argv[4]), 0;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    CHECK(channel);
    for (int of = 0; of < CASES; of++) {
        int dies = cases[of].client_then == DIE || cases[of].server_then == DIE;
        int chosen = argc > 4 && argv[4][0] ? !strcmp(argv[4], cases[of].name) : !dies && !cases[of].slow;
        if (chosen)
            run(channel, of, argv[2], argv[3]);
    }
    printf("all cases\n");
    return 0;
}
