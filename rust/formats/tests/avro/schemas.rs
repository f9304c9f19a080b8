//! Schemas: what is refused and where, fingerprints, and the columns that they become.

use arrow_schema::DataType;
use monedula_formats::{AvroOptions, AvroPlan, AvroSchema, Framing};

use crate::support::{field, record, schema};

fn data_type(text: &str, options: &[(&str, &str)]) -> Result<String, String> {
    let mut given = AvroOptions::default();
    let options: Vec<_> = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    given.set(&options).map_err(|bad| bad.to_string())?;
    let plan = AvroPlan::new(schema(text), vec![], Framing::Bare, given).map_err(|bad| bad.to_string())?;
    Ok(plan.data_type().to_string())
}

#[test]
fn a_bad_schema_is_refused_where_it_is_bad() {
    let nested = |kind: &str| record(&field("items", &format!(r#"{{"type":"array","items":{kind}}}"#)));
    for (text, expected) in [
        ("{", "is not JSON: EOF while parsing an object at line 1 column 1".to_owned()),
        ("5", "5 is no type; expected a name, an object or an array".to_owned()),
        (
            r#""Other""#,
            r#"no type "Other" is defined before this; references to other schemas are not looked up"#.into(),
        ),
        (r#"{"name":"x"}"#, "it has no type".to_owned()),
        (r#"{"type":"record","name":"x"}"#, "the record x has no list of fields".to_owned()),
        (r#"{"type":"fixed","name":"x"}"#, "a fixed needs a size".to_owned()),
        (r#"{"type":"fixed","name":"x","size":-1}"#, "a fixed needs a size".to_owned()),
        (r#"{"type":"enum","name":"x","symbols":[]}"#, "the enum x has no symbols".to_owned()),
        (
            r#"{"type":"enum","name":"x","symbols":["a"],"default":"b"}"#,
            r#"the enum's default "b" is none of its symbols"#.to_owned(),
        ),
        (r#"["null","int","int"]"#, "[2]: the union has int twice".to_owned()),
        (r#"["null",["int"]]"#, "[1]: a union directly in a union".to_owned()),
        ("[]", "a union of nothing".to_owned()),
        (
            &nested(r#""nowhere""#),
            r#"items[]: no type "nowhere" is defined before this; references to other schemas are not looked up"#
                .into(),
        ),
        (&record(&[field("a", r#""int""#), field("a", r#""int""#)].join(",")), "a: two fields have this name".into()),
        (r#"{"type":"record","name":"int","fields":[]}"#, "int is the name of a primitive type".to_owned()),
        (&record(&field("a", r#"{"type":"fixed","name":"R","size":1}"#)), "a: the type R is defined twice".to_owned()),
        (&"[".repeat(1_000), "is nested too deep: JSON is read to a depth of 127, some 40 records".to_owned()),
    ] {
        assert_eq!(AvroSchema::parse(text).expect_err(text).to_string(), expected);
    }
}

#[test]
fn names_are_found_in_their_namespaces() {
    let text = r#"{"type":"record","name":"a.b.R","fields":[
        {"name":"inner","type":{"type":"record","name":"S","fields":[{"name":"x","type":"int"}]}},
        {"name":"again","type":"S"},{"name":"full","type":"a.b.S"},
        {"name":"other","type":{"type":"enum","name":"E","namespace":"c","symbols":["p"]}},
        {"name":"others","type":["null","c.E"]}]}"#;
    assert_eq!(
        schema(text).canonical_form(),
        r#"{"name":"a.b.R","type":"record","fields":[{"name":"inner","type":{"name":"a.b.S","type":"record","fields":[{"name":"x","type":"int"}]}},{"name":"again","type":"a.b.S"},{"name":"full","type":"a.b.S"},{"name":"other","type":{"name":"c.E","type":"enum","symbols":["p"]}},{"name":"others","type":["null","c.E"]}]}"#
    );
}

#[test]
fn unions_become_what_spark_makes_of_them() {
    let stable = [("enableStableIdentifiersForUnionType", "true")];
    for (text, options, expected) in [
        (r#"["null","string"]"#, &[][..], "Utf8"),
        (r#"["long","int"]"#, &[], "Int64"),
        (r#"["null","float","double"]"#, &[], "Float64"),
        (r#"["int","null","string"]"#, &[], r#"Struct("member0": Int32, "member1": Utf8)"#),
        (r#"["int","string"]"#, &stable, r#"Struct("member_int": Int32, "member_string": Utf8)"#),
    ] {
        assert_eq!(data_type(text, options).expect(text), expected);
    }
}

#[test]
fn a_record_in_itself_is_cut_at_the_depth_that_was_given() {
    let tree = record(&[field("value", r#""int""#), field("next", r#"["null","R"]"#)].join(","));
    let depth = |depth| data_type(&tree, &[("recursiveFieldMaxDepth", depth)]);
    assert_eq!(
        depth("0").expect_err("refused"),
        "next: the record R is in itself; the option recursiveFieldMaxDepth (1 to 15) says how deep columns go"
    );
    assert_eq!(depth("1").expect("cut"), r#"Struct("value": Int32)"#);
    assert_eq!(depth("2").expect("cut"), r#"Struct("value": Int32, "next": Struct("value": Int32))"#);
    assert!(depth("16").expect_err("too deep").contains("at most 15"));
}

#[test]
fn schemas_without_columns_are_refused() {
    for (text, expected) in [
        (r#""null""#, "values of type null are in no column; leave the field out of the reader's schema"),
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":39}"#,
            "a decimal of 39 digits; columns have 38 at most",
        ),
    ] {
        assert_eq!(data_type(text, &[]).expect_err(text), expected);
    }
    // Each record has the one before it twice: 2^20 columns.
    let mut fields = vec![field("f0", r#"{"type":"record","name":"R0","fields":[{"name":"x","type":"int"}]}"#)];
    for level in 1..20 {
        let before = format!(r#""R{}""#, level - 1);
        let below = [field("a", &before), field("b", &before)].join(",");
        let kind = format!(r#"{{"type":"record","name":"R{level}","fields":[{below}]}}"#);
        fields.push(field(&format!("f{level}"), &kind));
    }
    assert!(data_type(&record(&fields.join(",")), &[]).expect_err("too many").contains("more than 10000 columns"));
}

#[test]
fn logical_types_that_do_not_fit_are_ignored() {
    for (text, expected) in [
        (r#"{"type":"string","logicalType":"date"}"#, DataType::Utf8),
        (r#"{"type":"bytes","logicalType":"decimal","precision":2,"scale":3}"#, DataType::Binary),
        (r#"{"type":"long","logicalType":"of-somebody"}"#, DataType::Int64),
        (r#"{"type":"string","logicalType":"uuid"}"#, DataType::Utf8),
    ] {
        assert_eq!(data_type(text, &[]).expect(text), expected.to_string());
    }
}

#[test]
fn a_type_may_be_defined_twice_alike_as_in_java() {
    let (fixed, symbols) =
        (r#"{"type":"fixed","name":"X","size":4}"#, r#"{"type":"enum","name":"X","symbols":["A","B"]}"#);
    let of = |fields: &str| format!(r#"{{"type":"record","name":"X","fields":[{fields}]}}"#);
    let int = of(r#"{"name":"i","type":"int"}"#);
    let documented = of(r#"{"name":"i","type":"int","doc":"d","aliases":["j"]}"#);
    let nested = of(&field("e", r#"{"type":"enum","name":"E","symbols":["A"]}"#));
    for (one, other, alike) in [
        (fixed, fixed, true),
        (symbols, symbols, true),
        (symbols, r#"{"type":"enum","name":"X","doc":"d","aliases":["Y"],"default":"A","symbols":["A","B"]}"#, true),
        (&*int, &*int, true),
        (&int, &documented, true),
        (&nested, &nested, true),
        (&int, &format!(r#"{{"type":"array","items":{int}}}"#), true),
        (&int, &format!(r#"["null",{int}]"#), true),
        (symbols, r#"{"type":"enum","name":"X","symbols":["B","A"]}"#, false),
        (symbols, r#"{"type":"enum","name":"X","symbols":["A"]}"#, false),
        (fixed, symbols, false),
        (fixed, r#"{"type":"fixed","name":"X","size":5}"#, false),
        (fixed, r#"{"type":"fixed","name":"X","size":4,"logicalType":"decimal","precision":5}"#, false),
        (&int, &of(r#"{"name":"i","type":"long"}"#), false),
        (&int, &of(r#"{"name":"i","type":"int","default":1}"#), false),
        (&int, &of(r#"{"name":"j","type":"int"}"#), false),
        (&int, &of(""), false),
        (&of(&field("x", &of(""))), r#""int""#, false),
    ] {
        let text = record(&[field("a", one), field("b", other)].join(","));
        let parsed = AvroSchema::parse(&text);
        let again = record(&[field("a", one), field("b", &other.replace(one, r#""X""#))].join(","));
        match alike {
            true if one == other => {
                assert_eq!(parsed.expect(&text).canonical_form(), schema(&again).canonical_form());
            }
            true => drop(parsed.expect(&text)),
            false => assert!(parsed.expect_err(&text).to_string().ends_with("the type X is defined twice"), "{text}"),
        }
    }
}

#[test]
fn a_logical_type_beside_that_of_a_field_is_ignored_as_in_java() {
    for (kind, expected) in [
        (r#""long","logicalType":"timestamp-millis""#, "Int64"),
        (r#""bytes","logicalType":"decimal","precision":4,"scale":2"#, "Binary"),
        (r#"["null","long"],"logicalType":"timestamp-millis""#, "Int64"),
        (r#"{"type":"long","logicalType":"timestamp-millis"}"#, "Timestamp(µs, \"UTC\")"),
    ] {
        let text = format!(r#"{{"type":"record","name":"R","fields":[{{"name":"a","type":{kind}}}]}}"#);
        assert_eq!(data_type(&text, &[]).expect(&text), format!(r#"Struct("a": {expected})"#));
    }
}

#[test]
fn what_readers_take_and_the_specification_does_not_is_refused_where_it_is_strict() {
    for (text, expected) in [
        (record(&field("a", r#""int","default":"x""#)), "a default that is none of its type"),
        (record(&field("a", r#""int","order":"up""#)), r#"the order "up""#),
        (record(r#"{"name":"a b","type":"int"}"#), "the name 'a b'"),
        (record(r#"{"name":"a","type":"array","items":"int"}"#), "'array' is not defined"),
        (r#"{"type":"enum","name":"E","symbols":["a","a"]}"#.to_owned(), "has 'a' twice"),
        (r#"{"type":"enum","name":"1E","symbols":["a"]}"#.to_owned(), "the name '1E'"),
        (
            record(&format!(
                r#"{},{}"#,
                field("a", r#"{"type":"fixed","name":"F","size":1}"#),
                field("b", r#"{"type":"fixed","name":"F","size":1,"x":2}"#),
            )),
            "F is defined twice",
        ),
    ] {
        AvroSchema::parse(&text).unwrap();
        let refused = AvroSchema::parse_strictly(&text, &[]).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    AvroSchema::parse_strictly("[]", &[]).unwrap();
}

#[test]
fn types_in_each_other_without_end_are_compared_as_far_as_the_stack_allows() {
    let mut texts = Vec::new();
    for number in 0..3_000_usize {
        let of = if number == 0 { "int".to_owned() } else { format!("R{}", number - 1) };
        let text = format!(r#"{{"type":"record","name":"R{number}","fields":[{{"name":"a","type":"{of}"}}]}}"#);
        texts.push((number.to_string(), text));
    }
    let schema = AvroSchema::parse_strictly(r#""R2999""#, &texts).unwrap();
    let told = schema.cannot_read(&schema);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("types are nested too deep"), "{told:?}");
}
