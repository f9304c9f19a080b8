//! Comparison with arrow-avro, the Arrow project's own reader, on generated schemas and values: both give the same
//! rows, also when the reader's schema has fewer and wider fields. Encoding the rows again gives the same bytes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time32MillisecondType,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType,
};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::{AvroSchema as PeerSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use arrow_schema::{DataType, TimeUnit};
use bolero::TypeGenerator;
use monedula_columns::BufferPool;
use monedula_formats::{AvroDecoder, AvroEncoder, AvroOptions, AvroPlan, AvroSchema, Framing, Mode, WriterKey};

use super::support::{long, text};

const ID: u32 = 7;
const FRAME: [u8; 5] = [0, 0, 0, 0, ID as u8];

#[derive(Debug, Clone, Copy, TypeGenerator)]
enum Leaf {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Text,
    Bytes,
    Fixed,
    Enum,
    Date,
    TimeMillis,
    TimeMicros,
    Millis,
    Micros,
    LocalMicros,
    Decimal,
}

#[derive(Debug, Clone, TypeGenerator)]
enum Kind {
    Leaf(Leaf),
    List(Nullable),
    Map(Nullable),
    Record(Vec<Nullable>),
}

/// Alternative to a value of the type.
#[derive(Debug, Clone, Copy, TypeGenerator)]
enum Nulls {
    None,
    First,
    Last,
}

#[derive(Debug, Clone, Copy, TypeGenerator)]
struct Nullable {
    leaf: Leaf,
    nulls: Nulls,
}

#[derive(Debug, Clone, TypeGenerator)]
struct Column {
    kind: Kind,
    nulls: Nulls,
    /// True if the reader has the column, too; `is_wider` if it reads numbers as double.
    is_read: bool,
    is_wider: bool,
}

impl Leaf {
    fn json(self, number: usize) -> String {
        let logical = |kind: &str, logical: &str| format!(r#"{{"type":"{kind}","logicalType":"{logical}"}}"#);
        match self {
            Self::Boolean => r#""boolean""#.to_owned(),
            Self::Int => r#""int""#.to_owned(),
            Self::Long => r#""long""#.to_owned(),
            Self::Float => r#""float""#.to_owned(),
            Self::Double => r#""double""#.to_owned(),
            Self::Text => r#""string""#.to_owned(),
            Self::Bytes => r#""bytes""#.to_owned(),
            Self::Fixed => format!(r#"{{"type":"fixed","name":"F{number}","size":3}}"#),
            Self::Enum => format!(r#"{{"type":"enum","name":"E{number}","symbols":["A","BB","C"]}}"#),
            Self::Date => logical("int", "date"),
            Self::TimeMillis => logical("int", "time-millis"),
            Self::TimeMicros => logical("long", "time-micros"),
            Self::Millis => logical("long", "timestamp-millis"),
            Self::Micros => logical("long", "timestamp-micros"),
            Self::LocalMicros => logical("long", "local-timestamp-micros"),
            Self::Decimal => r#"{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}"#.to_owned(),
        }
    }

    fn value(self, random: &mut Random) -> Vec<u8> {
        let bits = random.next();
        match self {
            Self::Boolean => vec![bits as u8 & 1],
            Self::Int | Self::Date => long(i64::from(bits as i32) >> (bits >> 32 & 31)),
            Self::TimeMillis => long((bits % 86_400_000) as i64),
            Self::TimeMicros => long((bits % 86_400_000_000) as i64),
            // Shifted, so that milliseconds are in range as microseconds.
            Self::Millis => long(bits as i64 >> 11 >> (bits & 31)),
            Self::Long | Self::Micros | Self::LocalMicros => long(bits as i64 >> (bits & 63)),
            Self::Float => (bits as u16 as f32).to_le_bytes().to_vec(),
            Self::Double => (bits as u32 as f64 / 8.0).to_le_bytes().to_vec(),
            Self::Text => {
                let texts = ["", "a", "añ", "añ日", "añ日𝄞", "añ日𝄞x"];
                text(&texts[bits as usize % texts.len()].repeat(1 + (bits >> 8) as usize % 40))
            }
            Self::Bytes => {
                let bytes: Vec<u8> = (0..bits % 70).map(|_| random.next() as u8).collect();
                [long(bytes.len() as i64), bytes].concat()
            }
            Self::Fixed => bits.to_le_bytes()[..3].to_vec(),
            Self::Enum => long((bits % 3) as i64),
            Self::Decimal => {
                let digits = (bits % 1_000_000_000_000) as i64 * if bits >> 63 == 0 { 1 } else { -1 };
                let bytes = digits.to_be_bytes();
                let sign = if digits < 0 { 0xff } else { 0 };
                let spare = (0..7).take_while(|at| bytes[*at] == sign && (bytes[at + 1] ^ sign) < 0x80).count();
                [long(8 - spare as i64), bytes[spare..].to_vec()].concat()
            }
        }
    }
}

impl Nulls {
    fn json(self, kind: &str) -> String {
        match self {
            Self::None => kind.to_owned(),
            Self::First => format!(r#"["null",{kind}]"#),
            Self::Last => format!(r#"[{kind},"null"]"#),
        }
    }

    fn value(self, random: &mut Random, value: impl FnOnce(&mut Random) -> Vec<u8>) -> Vec<u8> {
        let is_null = random.next().is_multiple_of(4);
        match (self, is_null) {
            (Self::None, _) => value(random),
            (Self::First, true) => long(0),
            (Self::Last, true) => long(1),
            (Self::First, false) => [long(1), value(random)].concat(),
            (Self::Last, false) => [long(0), value(random)].concat(),
        }
    }
}

impl Nullable {
    fn json(self, number: usize) -> String {
        self.nulls.json(&self.leaf.json(number))
    }

    fn value(self, random: &mut Random) -> Vec<u8> {
        self.nulls.value(random, |random| self.leaf.value(random))
    }
}

impl Kind {
    fn json(&self, number: usize) -> String {
        match self {
            Self::Leaf(leaf) => leaf.json(number),
            Self::List(item) => format!(r#"{{"type":"array","items":{}}}"#, item.json(number)),
            Self::Map(value) => format!(r#"{{"type":"map","values":{}}}"#, value.json(number)),
            Self::Record(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .take(4)
                    .enumerate()
                    .map(|(at, field)| format!(r#"{{"name":"f{at}","type":{}}}"#, field.json(100 * (number + 1) + at)))
                    .collect();
                format!(r#"{{"type":"record","name":"R{number}","fields":[{}]}}"#, fields.join(","))
            }
        }
    }

    fn value(&self, random: &mut Random) -> Vec<u8> {
        let many = random.next() % 4;
        let block = |items: Vec<Vec<u8>>| {
            let count = if items.is_empty() { vec![] } else { long(items.len() as i64) };
            [count, items.concat(), vec![0]].concat()
        };
        match self {
            Self::Leaf(leaf) => leaf.value(random),
            Self::List(item) => block((0..many).map(|_| item.value(random)).collect()),
            Self::Map(value) => {
                block((0..many).map(|key| [text(&format!("k{key}")), value.value(random)].concat()).collect())
            }
            Self::Record(fields) => fields.iter().take(4).flat_map(|field| field.value(random)).collect(),
        }
    }

    /// Empty records are left out: Arrow's columns of them differ.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Record(fields) if fields.is_empty())
    }
}

impl Column {
    fn json(&self, number: usize) -> String {
        format!(r#"{{"name":"c{number}","type":{}}}"#, self.nulls.json(&self.kind.json(number)))
    }

    /// Reader's type: integers and floats may become double.
    fn read_as(&self, number: usize) -> String {
        match self.kind {
            Kind::Leaf(Leaf::Int | Leaf::Float) if self.is_wider => {
                format!(r#"{{"name":"c{number}","type":{}}}"#, self.nulls.json(r#""double""#))
            }
            _ => self.json(number),
        }
    }

    fn value(&self, random: &mut Random) -> Vec<u8> {
        self.nulls.value(random, |random| self.kind.value(random))
    }
}

/// Pseudo-random numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Text of a value, the same for all array types that could hold it.
fn told(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "null".to_owned();
    }
    let list = |items: ArrayRef| (0..items.len()).map(|item| told(&items, item)).collect::<Vec<_>>().join(", ");
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => format!("{:?}", array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => format!("{:?}", array.as_string::<i32>().value(row)),
        DataType::Binary => format!("{:?}", array.as_binary::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => format!("{:?}", array.as_fixed_size_binary().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_dictionary::<Int32Type>();
            told(dictionary.values(), dictionary.keys().value(row) as usize)
        }
        DataType::Date32 => format!("day {}", array.as_primitive::<Date32Type>().value(row)),
        DataType::Time32(TimeUnit::Millisecond) => {
            format!("{} ms", array.as_primitive::<Time32MillisecondType>().value(row))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            format!("{} us", array.as_primitive::<Time64MicrosecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            let ms = array.as_primitive::<TimestampMillisecondType>().value(row);
            format!("{} us, zone {}", i128::from(ms) * 1000, zone.is_some())
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            format!("{} us, zone {}", array.as_primitive::<TimestampMicrosecondType>().value(row), zone.is_some())
        }
        DataType::Decimal128(_, scale) => format!("{}e-{scale}", array.as_primitive::<Decimal128Type>().value(row)),
        DataType::List(_) => format!("[{}]", list(array.as_list::<i32>().value(row))),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            format!("{{{}}}", list(Arc::new(entries)))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns();
            format!("({})", columns.iter().map(|column| told(column, row)).collect::<Vec<_>>().join(", "))
        }
        other => panic!("a column of {other}"),
    }
}

fn by_us(writer: &str, reader: &str, values: &[Vec<u8>]) -> ArrayRef {
    let writers = vec![(WriterKey::Id(ID), AvroSchema::parse(writer).expect(writer))];
    let options = AvroOptions { mode: Mode::FailFast, ..AvroOptions::default() };
    let plan = AvroPlan::new(AvroSchema::parse(reader).expect(reader), writers, Framing::Confluent, options);
    let mut decoder = AvroDecoder::new(Arc::new(plan.expect(reader)), BufferPool::new(1 << 20));
    for value in values {
        decoder.append(Some(value)).expect("a sound value");
    }
    decoder.finish().0
}

fn by_arrow(writer: &str, reader: &str, values: &[Vec<u8>]) -> ArrayRef {
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(Fingerprint::Id(ID), PeerSchema::new(writer.to_owned())).expect(writer);
    let builder = ReaderBuilder::new()
        .with_writer_schema_store(store)
        .with_reader_schema(PeerSchema::new(reader.to_owned()))
        .with_batch_size(values.len());
    let mut decoder = builder.build_decoder().expect(reader);
    for value in values {
        decoder.decode(value).expect("a sound value");
    }
    Arc::new(StructArray::from(decoder.flush().expect("columns").expect("rows")))
}

#[test]
fn values_are_those_of_arrow_avro() {
    bolero::check!().with_shrink_time(std::time::Duration::ZERO).with_type::<(Vec<Column>, u8, u64)>().for_each(
        |(columns, rows, seed)| {
            let mut random = Random(*seed);
            let columns: Vec<_> = columns.iter().filter(|column| !column.kind.is_empty()).take(8).collect();
            let schema =
                |fields: Vec<String>| format!(r#"{{"type":"record","name":"Row","fields":[{}]}}"#, fields.join(","));
            let writer = schema(columns.iter().enumerate().map(|(at, column)| column.json(at)).collect());
            let read: Vec<_> = columns.iter().enumerate().filter(|(_, column)| column.is_read).collect();
            let reader = schema(read.iter().rev().map(|(at, column)| column.read_as(*at)).collect());
            let values: Vec<Vec<u8>> = (0..1 + rows % 20)
                .map(|_| {
                    let fields = columns.iter().flat_map(|column| column.value(&mut random));
                    FRAME.into_iter().chain(fields).collect()
                })
                .collect();
            // Skip batches without columns, for which arrow-avro has no number of rows.
            for reader in [&writer, &reader].into_iter().filter(|_| !read.is_empty()) {
                let (ours, theirs) = (by_us(&writer, reader, &values), by_arrow(&writer, reader, &values));
                for row in 0..values.len() {
                    assert_eq!(told(&ours, row), told(&theirs, row), "row {row} of {writer} read as {reader}");
                }
            }
            let schema = AvroSchema::parse(&writer).expect("a schema");
            let encoder = AvroEncoder::new(schema, WriterKey::Id(ID), AvroOptions::default());
            let written = encoder.encode(&by_us(&writer, &writer, &values)).expect("what was read");
            for (row, value) in values.iter().enumerate() {
                assert_eq!(written.value(row), value, "row {row} of {writer}");
            }
        },
    );
}
