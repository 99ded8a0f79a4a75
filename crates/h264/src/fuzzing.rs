//! Entry points of the fuzz targets; not part of the public interface.

use crate::Limits;
use crate::bits::BitReader;
use crate::nal::{NalStream, Rbsp};
use crate::params::{Pps, Sps};
use crate::poc::PocState;
use crate::slice::{SliceHeader, SliceStart};

/// Parses each NAL unit of `data` as a parameter set or a slice header, by the type in its first byte.
pub fn parse_headers(data: &[u8]) {
    let mut rbsp = Rbsp::default();
    let (mut sps, mut pps) = (None, None);
    let most = Limits::default().max_macroblocks;
    let mut stream = NalStream::new(data);
    while let Some(unit) = stream.next_unit() {
        rbsp.load(&unit.bytes[1..]);
        let mut reader = BitReader::new(&rbsp);
        match (unit.bytes[0] & 31, &sps, &pps) {
            (7, ..) => sps = Sps::parse(&mut reader, most).ok().or(sps),
            (8, ..) => pps = Pps::parse(&mut reader).ok().or(pps),
            (_, Some(sps), Some(pps)) => {
                if let Ok(start) = SliceStart::parse(&mut reader) {
                    let header = SliceHeader::parse(&mut reader, start, unit.bytes[0], sps, pps);
                    if let Ok(header) = header {
                        std::hint::black_box(PocState::default().derive(sps, &header));
                    }
                }
            }
            _ => {}
        }
    }
}
