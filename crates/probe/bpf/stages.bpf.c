// Stamps requests at the boundaries of stages, and sums the durations of the stages.
//
// A packet on a connection to one of the target's ports is stamped at three points: where it reached the device layer (the
// network stack's own timestamp), where TCP received it, and where the socket reported that data is ready. A read consumes
// packets. A request begins at the application's first mark, or at the read if there are no marks, and takes the stamps of
// the packet that contains its first byte. A write ends all requests of its connection that have begun. Bytes are counted
// by TCP sequence numbers, so pipelined requests are kept apart. The stamps are stored outside the requests, in contrast
// to the source, where requests carry a buffer (seed 004, part 2, "Fine-grained request probing").
//
// Cost: one hash lookup per event, and one multiplication per pair of values when a request ends.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define TYPE(name, value) int(*name)[value]
#define KERNEL __attribute__((preserve_access_index))

enum { HASH = 1, ARRAY = 2, PERCPU_ARRAY = 6, LRU_HASH = 9, RINGBUF = 27, TASK_STORAGE = 29 };
enum { NO_PREALLOC = 1, ANY = 0, NOEXIST = 1, STORAGE_CREATE = 1, MSG_PEEK = 2 };

static void *(*map_lookup)(void *, const void *) = (void *)1;
static long (*map_update)(void *, const void *, const void *, u64) = (void *)2;
static long (*map_delete)(void *, const void *) = (void *)3;
static u64 (*now)(void) = (void *)5;
static u32 (*random)(void) = (void *)7;
static u32 (*processor)(void) = (void *)8;
static long (*read_user)(void *, u32, const void *) = (void *)112;
static long (*read_kernel)(void *, u32, const void *) = (void *)113;
static void *(*ring_reserve)(void *, u64, u64) = (void *)131;
static void (*ring_submit)(void *, u64) = (void *)132;
static void *(*task_storage)(void *, void *, void *, u64) = (void *)156;
static void *(*current_task)(void) = (void *)158;
static long (*loop)(u32, void *, void *, u64) = (void *)181;

// The kernel types that the programs access. The offsets are relocated when the object is loaded.
struct ns_common { u32 inum; } KERNEL;
struct net { struct ns_common ns; } KERNEL;
typedef struct { struct net *net; } KERNEL possible_net_t;
struct sock_common { u16 skc_num; possible_net_t skc_net; } KERNEL;
struct sock { struct sock_common __sk_common; } KERNEL;
struct tcp_sock { u32 copied_seq; } KERNEL;
struct sk_buff { struct sock *sk; u64 tstamp; char cb[48]; } KERNEL;
struct task_struct { int tgid; } KERNEL;

// The stamps of a request, in the order in which they are taken. The application defines the marks.
enum { DEVICE, TCP, READY, READ, MARK, MARKS = 4, WRITE = MARK + MARKS, OUT, STAMPS };
// Evidence, which may explain a duration.
enum { WAKEUP, RUN_QUEUE, BLOCKED, REMOTE, BATCH, EVIDENCE };
// The values are nine stages and the evidence. The figures of the total are computed from the stages.
enum { STAGES = STAMPS - 1, VALUES = STAGES + EVIDENCE, PAIRS = VALUES * (VALUES + 1) / 2 };
enum { PACKETS = 64, REQUESTS = 64, BUCKETS = 896, PORTS = 8 };
// The reasons why data is missing.
enum { NO_CONNECTION, NO_PACKET, PACKET_LOST, REQUEST_LOST, RING_FULL, CLAMPED, CLOCK, REASONS };

// These constants are set before the programs are loaded.
const volatile u32 marks = 0;        // the number of marks of the application
const volatile u32 ports = 0;        // the number of ports on which the target listens
const volatile u16 port[PORTS] = {}; // the ports themselves
const volatile u32 namespace = 0;    // the target's network namespace
const volatile u64 key[MARKS] = {};  // the index of the argument that identifies a mark's request, plus 1; 0 if there is none
const volatile u64 unread[2] = {};   // the location of the number of unread bytes at the first mark: argument + 1, offset

// These settings may change while the programs run.
struct control {
	u64 epoch;     // 0 if stamping is off; a new epoch discards the requests in flight
	u64 real_ns;   // CLOCK_REALTIME minus CLOCK_MONOTONIC
	u64 slow_ns;   // requests that take longer are reported as whole requests
	u64 one_in;    // one in this number of all requests is also reported; 0 for none
	u64 bank;      // the index of the set of sums that is updated; the other set may be read
};

struct packet { u64 end, device, tcp, ready, processor; };
struct request { u64 stamp[WRITE]; u64 evidence[EVIDENCE]; u64 run_delay, blocked; };

struct connection {
	u64 epoch;
	u64 packet_head, packet_tail, packet_ready;
	u64 request_head, request_tail;
	u64 read, read_end, reads_taken; // the last read: its time, its end, and the requests begun in it
	u64 running, delay, run_delay, processor; // the reader's start, its last delay, its total delay, and its processor
	u64 write, out;
	struct packet packets[PACKETS];
	struct request requests[REQUESTS];
};

struct thread {
	u64 socket;
	u64 waking, running, off; // the last times at which it was woken, began to run, and left its processor
	u64 delay;                // the time for which it was runnable before it began to run
	u64 run_delay, blocked;   // sums of all delays and of all blocked times
	u64 sleeping;
};

struct sums {
	u64 requests;
	u64 sum[VALUES];
	u64 low[PAIRS], high[PAIRS];
	// These fields belong to the request that ends. They are in a map and not on the stack because the verifier
	// treats a value that is read from a map as an arbitrary number. It then need not follow every path to the value.
	u64 stamp[STAMPS];
	u64 value[VALUES];
};
struct report { u64 by_chance; u64 stamp[STAMPS]; u64 evidence[EVIDENCE]; };

struct { TYPE(type, ARRAY); TYPE(max_entries, 1); u32 *key; struct control *value; } CONTROL SEC(".maps");
struct { TYPE(type, HASH); TYPE(max_entries, 4096); u64 *key; struct connection *value; } CONNECTIONS SEC(".maps");
struct { TYPE(type, PERCPU_ARRAY); TYPE(max_entries, 1); u32 *key; struct connection *value; } BLANK SEC(".maps");
struct { TYPE(type, TASK_STORAGE); TYPE(map_flags, NO_PREALLOC); u32 *key; struct thread *value; } THREADS SEC(".maps");
struct { TYPE(type, LRU_HASH); TYPE(max_entries, 8192); u64 *key; u64 *value; } KEYS SEC(".maps");
struct { TYPE(type, PERCPU_ARRAY); TYPE(max_entries, 2); u32 *key; struct sums *value; } SUMS SEC(".maps");
struct { TYPE(type, PERCPU_ARRAY); TYPE(max_entries, 2 * (STAGES + 1)); u32 *key; u32 (*value)[BUCKETS]; } BUCKET SEC(".maps");
struct { TYPE(type, PERCPU_ARRAY); TYPE(max_entries, 1); u32 *key; u64 (*value)[REASONS]; } MISSING SEC(".maps");
struct { TYPE(type, RINGBUF); TYPE(max_entries, 1 << 20); } REPORTS SEC(".maps");

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static const u32 zero = 0;

INLINE void missing(u32 why)
{
	u64 *counts = map_lookup(&MISSING, &zero);
	if (counts)
		counts[why]++;
}

// Returns the control block if stamping is on.
INLINE struct control *on(void)
{
	struct control *control = map_lookup(&CONTROL, &zero);
	return control && control->epoch ? control : 0;
}

INLINE int is_ours(const struct sock *sk)
{
	u16 local = sk->__sk_common.skc_num;
#pragma unroll
	for (u32 i = 0; i < PORTS; i++)
		if (i < ports && port[i] == local)
			return 1;
	return 0;
}

// Returns the connection of a socket. If it was last seen in an earlier epoch, it is reset.
INLINE struct connection *find(u64 socket, const struct control *control)
{
	struct connection *connection = map_lookup(&CONNECTIONS, &socket);
	if (connection && connection->epoch != control->epoch) {
		connection->epoch = control->epoch;
		connection->packet_tail = connection->packet_ready = connection->packet_head;
		connection->request_tail = connection->request_head;
		connection->read = connection->write = connection->out = 0;
	}
	return connection;
}

SEC("tp_btf/tcp_probe") int segment(u64 *args)
{
	const struct control *control = on();
	const struct sock *sk = (void *)args[0];
	if (!control || !is_ours(sk))
		return 0;
	const struct sk_buff *skb = (void *)args[1];
	u32 sequence[2];
	read_kernel(sequence, sizeof sequence, skb->cb);
	if (sequence[0] == sequence[1])
		return 0;
	u64 socket = (u64)sk;
	struct connection *connection = find(socket, control);
	if (!connection) {
		if (sk->__sk_common.skc_net.net->ns.inum != namespace)
			return 0;
		void *blank = map_lookup(&BLANK, &zero);
		if (blank)
			map_update(&CONNECTIONS, &socket, blank, NOEXIST);
		connection = find(socket, control);
		if (!connection) {
			missing(NO_CONNECTION);
			return 0;
		}
	}
	u64 at = now();
	u64 device = skb->tstamp - control->real_ns;
	if (device > at || at - device > 1000000000) {
		missing(CLOCK);
		device = at;
	}
	if (connection->packet_head - connection->packet_tail >= PACKETS) {
		missing(PACKET_LOST);
		return 0;
	}
	struct packet *packet = &connection->packets[connection->packet_head % PACKETS];
	packet->end = sequence[1];
	packet->device = device;
	packet->tcp = at;
	packet->ready = 0;
	packet->processor = processor();
	connection->packet_head++;
	return 0;
}

SEC("tp_btf/sk_data_ready") int ready(u64 *args)
{
	const struct control *control = on();
	const struct sock *sk = (void *)args[0];
	if (!control || !is_ours(sk))
		return 0;
	struct connection *connection = find((u64)sk, control);
	if (!connection)
		return 0;
	u64 at = now();
	for (u32 i = 0; i < PACKETS && connection->packet_ready < connection->packet_head; i++) {
		connection->packets[connection->packet_ready % PACKETS].ready = at;
		connection->packet_ready++;
	}
	return 0;
}

// Returns the oldest packet that ends after `position`, and discards all older packets.
INLINE struct packet *packet_at(struct connection *connection, u32 position)
{
	for (u32 i = 0; i < PACKETS && connection->packet_tail < connection->packet_head; i++) {
		struct packet *packet = &connection->packets[connection->packet_tail % PACKETS];
		if ((s32)((u32)packet->end - position) > 0)
			return packet;
		connection->packet_tail++;
	}
	return 0;
}

// Begins a request whose first byte is at `position`.
INLINE void begin(struct connection *connection, struct thread *thread, u32 position, u64 at)
{
	struct packet *packet = packet_at(connection, position);
	if (!packet) {
		missing(NO_PACKET);
		return;
	}
	if (connection->request_head - connection->request_tail >= REQUESTS) {
		missing(REQUEST_LOST);
		return;
	}
	struct request *request = &connection->requests[connection->request_head % REQUESTS];
	u64 read = connection->read;
	u64 ready = packet->ready && packet->ready < read ? packet->ready : packet->tcp;
	request->stamp[DEVICE] = packet->device;
	request->stamp[TCP] = packet->tcp;
	request->stamp[READY] = ready;
	request->stamp[READ] = read;
#pragma unroll
	for (u32 i = MARK; i < WRITE; i++)
		request->stamp[i] = i == MARK ? at : 0;
	// If the reader began to run after the data arrived, it was asleep when they arrived.
	u64 slept = connection->running > ready && connection->running <= read;
	request->evidence[WAKEUP] = slept ? connection->running - ready : 0;
	request->evidence[REMOTE] = packet->processor != connection->processor;
	request->evidence[BATCH] = connection->reads_taken++;
	request->run_delay = connection->run_delay - (slept ? connection->delay : 0);
	request->blocked = thread->blocked;
	connection->request_head++;
}

SEC("tp_btf/sock_recv_length") int received(u64 *args)
{
	const struct control *control = on();
	const struct sock *sk = (void *)args[0];
	if (!control || !is_ours(sk) || (s32)args[1] <= 0 || args[2] & MSG_PEEK)
		return 0;
	struct connection *connection = find((u64)sk, control);
	struct thread *thread = task_storage(&THREADS, current_task(), 0, STORAGE_CREATE);
	if (!connection || !thread)
		return 0;
	u64 at = now();
	u32 end = 0;
	read_kernel(&end, sizeof end, &((struct tcp_sock *)sk)->copied_seq);
	thread->socket = (u64)sk;
	connection->running = thread->running;
	connection->delay = thread->delay;
	connection->run_delay = thread->run_delay;
	connection->processor = processor();
	connection->read = at;
	connection->read_end = end;
	connection->reads_taken = 0;
	if (!marks) {
		// Without marks, the last read before a write is the request.
		connection->request_tail = connection->request_head;
		begin(connection, thread, end - 1, 0);
	}
	return 0;
}

struct pt_regs { unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di; };

INLINE u64 argument(const struct pt_regs *regs, u64 which)
{
	// The verifier refuses a computed pointer into the registers, but not one into the stack.
	volatile u64 arguments[8] = { regs->di, regs->si, regs->dx, regs->cx, regs->r8, regs->r9 };
	return arguments[which & 7];
}

INLINE int mark(const struct pt_regs *regs, u32 which)
{
	const struct control *control = on();
	if (!control)
		return 0;
	u64 at = now();
	u64 name = key[which] ? argument(regs, key[which] - 1) : 0;
	struct thread *thread = task_storage(&THREADS, current_task(), 0, 0);
	u64 socket = thread ? thread->socket : 0;
	if (which && key[which]) {
		// Another thread may continue the request.
		u64 *begun = map_lookup(&KEYS, &name);
		socket = begun ? *begun : 0;
	}
	struct connection *connection = socket ? find(socket, control) : 0;
	if (!connection || !connection->read)
		return 0;
	if (which == 0 && thread) {
		u32 left = 0;
		u32 position = connection->read_end - 1;
		if (unread[0]) {
			read_user(&left, sizeof left, (void *)(argument(regs, unread[0] - 1) + unread[1]));
			position = connection->read_end - left;
		}
		begin(connection, thread, position, at);
		if (key[0])
			map_update(&KEYS, &name, &socket, ANY);
	} else if (which && connection->request_head != connection->request_tail) {
		connection->requests[(connection->request_head - 1) % REQUESTS].stamp[MARK + which] = at;
	}
	return 0;
}

SEC("uprobe/0") int mark0(struct pt_regs *regs) { return mark(regs, 0); }
SEC("uprobe/1") int mark1(struct pt_regs *regs) { return mark(regs, 1); }
SEC("uprobe/2") int mark2(struct pt_regs *regs) { return mark(regs, 2); }
SEC("uprobe/3") int mark3(struct pt_regs *regs) { return mark(regs, 3); }

SEC("tp_btf/tcp_sendmsg_locked") int sending(u64 *args)
{
	const struct control *control = on();
	const struct sock *sk = (void *)args[0];
	if (!control || !is_ours(sk))
		return 0;
	struct connection *connection = find((u64)sk, control);
	if (connection && !connection->write)
		connection->write = now();
	return 0;
}

SEC("tp_btf/net_dev_start_xmit") int transmit(u64 *args)
{
	const struct control *control = on();
	const struct sk_buff *skb = (void *)args[0];
	const struct sock *sk = skb->sk;
	if (!control || !sk || !is_ours(sk))
		return 0;
	struct connection *connection = find((u64)sk, control);
	if (connection && connection->write && !connection->out)
		connection->out = now();
	return 0;
}

// Buckets are 1/32 of an octave wide, and exact below 64. Their index consists of the exponent and the next five bits.
INLINE u32 bucket_of(u32 value)
{
	u32 exponent = 0;
	u32 rest = value >> 5;
#pragma unroll
	for (u32 step = 16; step; step /= 2)
		if (rest >> step) {
			exponent += step;
			rest >>= step;
		}
	if (!(value >> 5))
		return value;
	return (exponent + 1) * 32 + (value >> exponent) - 32;
}

INLINE void count(u32 which, u32 value)
{
	u32 *buckets = map_lookup(&BUCKET, &which);
	u32 bucket = bucket_of(value);
	if (buckets && bucket < BUCKETS)
		buckets[bucket]++;
}

// Values are clamped so that the product of two values fits in 64 bits.
INLINE u64 clamped(u64 ns)
{
	return ns >> 32 ? 0xffffffff : ns;
}

// Whether a stage does not exist because the application lacks the mark at its end. This is known when the programs
// are loaded, so the verifier removes the code that is not needed.
INLINE int is_absent(u32 value)
{
	return value + 1 >= MARK + marks && value + 1 < WRITE;
}

struct ending {
	const struct control *control;
	struct connection *connection;
	u64 write, out, run_delay, blocked;
};

// Ends the oldest request of the connection.
static long end(u32 index, struct ending *ending)
{
	struct connection *connection = ending->connection;
	struct request *request = &connection->requests[connection->request_tail % REQUESTS];
	u32 bank = ending->control->bank & 1;
	struct sums *sums = map_lookup(&SUMS, &bank);
	if (!sums)
		return 1;
	connection->request_tail++;
	u64 first = request->stamp[DEVICE];
	sums->stamp[DEVICE] = first;
#pragma unroll
	for (u32 i = 1; i < STAMPS; i++) {
		u64 at = i < WRITE ? request->stamp[i] : i == WRITE ? ending->write : ending->out;
		u64 last = sums->stamp[i - 1];
		// A stage has zero length if the request did not pass the mark that ends it.
		sums->stamp[i] = at < last ? last : at;
		sums->value[i - 1] = clamped(sums->stamp[i] - last);
	}
	request->evidence[RUN_QUEUE] = ending->run_delay - request->run_delay;
	request->evidence[BLOCKED] = ending->blocked - request->blocked;
#pragma unroll
	for (u32 i = 0; i < EVIDENCE; i++)
		sums->value[STAGES + i] = clamped(request->evidence[i]);
	u64 total = sums->stamp[OUT] - first;
	if (total >> 32)
		missing(CLAMPED);
	sums->requests++;
	u32 pair = 0;
#pragma unroll
	for (u32 i = 0; i < VALUES; i++) {
		if (!is_absent(i))
			sums->sum[i] += sums->value[i];
#pragma unroll
		for (u32 j = i; j < VALUES; j++, pair++) {
			if (is_absent(i) || is_absent(j))
				continue;
			u64 product = sums->value[i] * sums->value[j];
			u64 low = sums->low[pair] + product;
			sums->high[pair] += low < product;
			sums->low[pair] = low;
		}
	}
#pragma unroll
	for (u32 i = 0; i < STAGES; i++)
		if (!is_absent(i))
			count(bank * (STAGES + 1) + i, sums->value[i]);
	count(bank * (STAGES + 1) + STAGES, clamped(total));
	u64 one_in = ending->control->one_in;
	u64 by_chance = one_in && random() % one_in == 0;
	if (total < ending->control->slow_ns && !by_chance)
		return 0;
	struct report *report = ring_reserve(&REPORTS, sizeof *report, 0);
	if (!report) {
		missing(RING_FULL);
		return 0;
	}
	report->by_chance = by_chance;
	for (u32 i = 0; i < STAMPS; i++)
		report->stamp[i] = sums->stamp[i];
	for (u32 i = 0; i < EVIDENCE; i++)
		report->evidence[i] = sums->value[STAGES + i];
	ring_submit(report, 0);
	return 0;
}

SEC("tp_btf/sock_send_length") int sent(u64 *args)
{
	const struct control *control = on();
	const struct sock *sk = (void *)args[0];
	if (!control || !is_ours(sk) || (s32)args[1] <= 0)
		return 0;
	struct connection *connection = find((u64)sk, control);
	if (!connection)
		return 0;
	u64 open = connection->request_head - connection->request_tail;
	if (open) {
		u64 at = now();
		struct thread *thread = task_storage(&THREADS, current_task(), 0, 0);
		struct ending ending = {
			.control = control,
			.connection = connection,
			.write = connection->write ? connection->write : at,
			.out = connection->out ? connection->out : at,
			.run_delay = thread ? thread->run_delay : 0,
			.blocked = thread ? thread->blocked : 0,
		};
		loop(open, end, &ending, 0);
	}
	connection->write = connection->out = 0;
	return 0;
}

SEC("tp_btf/tcp_destroy_sock") int closed(u64 *args)
{
	u64 socket = args[0];
	// The port is not checked, because a socket that the server closed has already released it.
	map_delete(&CONNECTIONS, &socket);
	return 0;
}

SEC("tp_btf/sched_waking") int waking(u64 *args)
{
	if (!on())
		return 0;
	struct thread *thread = task_storage(&THREADS, (void *)args[0], 0, 0);
	if (thread && thread->sleeping)
		thread->waking = now();
	return 0;
}

SEC("tp_btf/sched_switch") int switched(u64 *args)
{
	if (!on())
		return 0;
	struct thread *thread = task_storage(&THREADS, (void *)args[1], 0, 0);
	if (thread) {
		thread->off = now();
		thread->waking = 0;
		thread->sleeping = args[3] != 0;
	}
	thread = task_storage(&THREADS, (void *)args[2], 0, 0);
	if (thread && thread->off) {
		u64 at = now();
		u64 runnable = thread->sleeping ? thread->waking : thread->off;
		thread->running = at;
		if (runnable) {
			thread->delay = at - runnable;
			thread->run_delay += thread->delay;
			if (thread->sleeping)
				thread->blocked += runnable - thread->off;
		}
		thread->sleeping = 0;
	}
	return 0;
}
