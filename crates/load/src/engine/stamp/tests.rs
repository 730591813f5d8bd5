use super::*;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Instant;

fn sent(socket: &impl AsFd, room: &mut Room) -> Vec<(u32, u64)> {
    let mut stamps = Vec::new();
    drain(socket, room, |number, at_ns| stamps.push((number, at_ns))).unwrap();
    stamps
}

#[test]
fn datagrams_are_stamped_by_number_when_sent_and_when_received() {
    let _keeper = Keeper::new().unwrap();
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    enable(&near, false, Layer::Software).unwrap();
    let (mut room, epoch) = (Room::new(Layer::Software), Instant::now());
    let conversion = Conversion::new(StampClock::System, epoch);
    for number in 0..3 {
        near.send(b"request").unwrap();
        far.recv(&mut [0; 8]).unwrap();
        far.send(b"answer").unwrap();
        let stamps = sent(&near, &mut room);
        let [(of, left)] = stamps[..] else { panic!("{stamps:?}") };
        assert_eq!(of, number);
        let (bytes, received) = read(&near, &mut [0; 64], &mut room).unwrap();
        let received = received.expect("stamping is on");
        assert_eq!(bytes, 6);
        assert!(left <= received);
        let seen = epoch.elapsed().as_nanos() as u64;
        assert!(conversion.since_epoch_ns(received, 0, u64::MAX).unwrap() <= seen + 20_000);
    }
    assert_eq!(sent(&near, &mut room), []);
}

#[test]
fn requests_in_a_stream_are_stamped_by_their_last_byte() {
    let _keeper = Keeper::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    enable(&near, true, Layer::Software).unwrap();
    let mut room = Room::new(Layer::Software);
    let mut offset = 0;
    for length in [5, 1, 900] {
        near.write_all(&vec![b'x'; length]).unwrap();
        far.read_exact(&mut vec![0; length]).unwrap();
        far.write_all(b"answer").unwrap();
        let (bytes, received) = read(&near, &mut [0; 64], &mut room).unwrap();
        offset += length as u32;
        let stamps = sent(&near, &mut room);
        assert!(matches!(stamps[..], [(last, _)] if last == offset - 1), "{stamps:?}");
        assert_eq!((bytes, received.is_some()), (6, true));
    }
    drop(far);
    assert_eq!(read(&near, &mut [0; 8], &mut room).unwrap(), (0, None), "the end has no timestamp");
}
