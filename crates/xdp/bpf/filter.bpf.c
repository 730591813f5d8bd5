// Redirects the responses from one server to one port of this machine to an AF_XDP socket.
//
// The machine's other traffic, such as remote logins, uses the same device. The program therefore passes a packet to the
// stack unless it is certainly ours. For example, the stack receives fragments, packets with IP options, and frames that
// are too long for our buffers.
//
// Cost: about thirty instructions, or about 0.1 µs, for each packet that the device receives.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define TYPE(name, value) int(*name)[value]
#define NETWORK(value) __builtin_bswap16(value)

enum { XSKMAP = 17 };
enum { DROP = 1, PASS = 2 };
enum { IPV4 = 0x0800, NO_OPTIONS = 0x45, UDP = 17, FRAGMENT = 0x3fff };
enum { FRAME_MAX = 1514 };

static long (*redirect_map)(void *, u64, u64) = (void *)51;

struct context { u32 data, data_end, data_meta, device, queue; };

// The headers of a packet: Ethernet, IPv4 without options, UDP.
struct __attribute__((packed, aligned(2))) packet {
	u8 to_mac[6], from_mac[6];
	u16 kind;
	u8 version, service;
	u16 length, id, fragment;
	u8 hops, protocol;
	u16 sum;
	u32 from, to;
	u16 from_port, to_port;
	u16 udp_length, udp_sum;
};

// These constants are set before the program is loaded. Addresses and ports are in network order.
const volatile u32 server = 0;       // the address of the server
const volatile u32 own = 0;          // our address
const volatile u16 server_port = 0;
const volatile u16 own_port = 0;
const volatile u32 no_socket = PASS; // what happens to our packets if the map has no socket; tests change it

struct { TYPE(type, XSKMAP); TYPE(max_entries, 1); u32 *key; u32 *value; } SOCKETS SEC(".maps");

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("xdp") int redirect(struct context *context)
{
	struct packet *packet = (void *)(u64)context->data;
	void *end = (void *)(u64)context->data_end;
	if ((void *)(packet + 1) > end || (void *)packet + FRAME_MAX < end)
		return PASS;
	if (packet->kind != NETWORK(IPV4) || packet->version != NO_OPTIONS || packet->protocol != UDP)
		return PASS;
	if (packet->from != server || packet->to != own)
		return PASS;
	if (packet->from_port != server_port || packet->to_port != own_port)
		return PASS;
	// Neither the flag for more fragments nor a fragment offset may be set.
	if (packet->fragment & NETWORK(FRAGMENT))
		return PASS;
	return redirect_map(&SOCKETS, context->queue, no_socket);
}
