//! The shapes that requests and answers are made of, in few words.
//!
//! A field that a request may leave out may also be `null`: the reader takes both for the same (`fields.rs`), so [`Record::may`] says it of
//! every such field, and no room has to think of it. Answers say it where they mean it, with [`or_null`].

use std::ops::RangeInclusive;

use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, AnyOfBuilder, ArrayBuilder, ArrayItems, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr};

/// What a value looks like.
pub type Shape = RefOr<Schema>;

fn plain(of: Type, about: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(of).description((!about.is_empty()).then_some(about))
}

/// A string.
pub fn text(about: &str) -> Shape {
    plain(Type::String, about).into()
}

/// A string of so many characters.
pub fn text_of(length: RangeInclusive<usize>, about: &str) -> Shape {
    let (least, most) = length.into_inner();
    plain(Type::String, about).min_length((least > 0).then_some(least)).max_length((most < usize::MAX).then_some(most)).into()
}

/// A string of a form.
pub fn text_like(pattern: &str, most: usize, about: &str) -> Shape {
    plain(Type::String, about).pattern(Some(pattern)).max_length(Some(most)).into()
}

/// A string that begins so; `beginning` has nothing that a pattern reads otherwise.
pub fn text_beginning(beginning: &str, about: &str) -> Shape {
    plain(Type::String, about).pattern(Some(format!("^{beginning}"))).into()
}

/// A string that holds something of another type.
pub fn holding(content: &str, shape: Shape) -> Shape {
    plain(Type::String, "").content_media_type(content).content_schema(Some(shape)).into()
}

/// One of these strings.
pub fn word(words: &[&str], about: &str) -> Shape {
    plain(Type::String, about).enum_values(Some(words.iter().copied())).into()
}

/// `true` or `false`.
pub fn flag(about: &str) -> Shape {
    plain(Type::Boolean, about).into()
}

/// A whole number.
pub fn whole(bounds: RangeInclusive<i64>, about: &str) -> Shape {
    plain(Type::Integer, about).minimum(Some(*bounds.start())).maximum(Some(*bounds.end())).into()
}

/// A whole number that fits 32 bits.
pub fn count(bounds: RangeInclusive<u32>, about: &str) -> Shape {
    whole(i64::from(*bounds.start())..=i64::from(*bounds.end()), about)
}

/// A whole number of an answer, which nothing bounds.
pub fn amount(about: &str) -> Shape {
    plain(Type::Integer, about).minimum(Some(0)).into()
}

/// A number.
pub fn number(bounds: RangeInclusive<f64>, about: &str) -> Shape {
    plain(Type::Number, about).minimum(Some(*bounds.start())).maximum(Some(*bounds.end())).into()
}

/// A number above nought.
pub fn positive(most: f64, about: &str) -> Shape {
    plain(Type::Number, about).exclusive_minimum(Some(0)).maximum(Some(most)).into()
}

/// A number of an answer.
pub fn measure(about: &str) -> Shape {
    plain(Type::Number, about).into()
}

/// A list.
pub fn list(of: Shape, about: &str) -> Shape {
    list_of(of, 0..=usize::MAX, about)
}

/// A list of so many.
pub fn list_of(of: Shape, length: RangeInclusive<usize>, about: &str) -> Shape {
    let (least, most) = length.into_inner();
    ArrayBuilder::new()
        .items(ArrayItems::RefOrSchema(Box::new(of)))
        .description((!about.is_empty()).then_some(about))
        .min_items((least > 0).then_some(least))
        .max_items((most < usize::MAX).then_some(most))
        .into()
}

/// Members under any names.
pub fn map(of: Shape, about: &str) -> Shape {
    plain(Type::Object, about).additional_properties(Some(AdditionalProperties::RefOr(of))).into()
}

/// Members under names of a form, so many at most.
pub fn map_of(of: Shape, names: &str, most: usize, about: &str) -> Shape {
    bounded_map(of, plain(Type::String, "").pattern(Some(names)), most, about)
}

/// Members under names of up to so many characters, so many at most.
pub fn map_under(of: Shape, longest_name: usize, most: usize, about: &str) -> Shape {
    bounded_map(of, plain(Type::String, "").max_length(Some(longest_name)), most, about)
}

fn bounded_map(of: Shape, names: ObjectBuilder, most: usize, about: &str) -> Shape {
    plain(Type::Object, about)
        .additional_properties(Some(AdditionalProperties::RefOr(of)))
        .property_names(Some(names.build()))
        .max_properties(Some(most))
        .into()
}

/// Any object.
pub fn any_object(about: &str) -> Shape {
    plain(Type::Object, about).additional_properties(Some(AdditionalProperties::FreeForm(true))).into()
}

/// Any value.
pub fn anything(about: &str) -> Shape {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(about)).into()
}

/// One of these shapes.
pub fn either(shapes: impl IntoIterator<Item = Shape>, about: &str) -> Shape {
    let description = (!about.is_empty()).then_some(about);
    shapes.into_iter().fold(AnyOfBuilder::new().description(description), AnyOfBuilder::item).into()
}

/// The only one of them, or any.
pub fn one_of(shapes: impl IntoIterator<Item = Shape>) -> Shape {
    let mut shapes: Vec<Shape> = shapes.into_iter().collect();
    if shapes.len() == 1 { shapes.remove(0) } else { either(shapes, "") }
}

/// Always `null`.
pub fn nothing(about: &str) -> Shape {
    plain(Type::Null, about).into()
}

/// A shape that the document has under a name.
pub fn named(name: &str) -> Shape {
    Ref::from_schema_name(name).into()
}

/// This, or `null`.
pub fn or_null(shape: Shape) -> Shape {
    let widened = |of: SchemaType| match of {
        SchemaType::Type(of) => SchemaType::from_iter([of, Type::Null]),
        other => other,
    };
    match shape {
        RefOr::T(Schema::Object(mut object)) => {
            object.schema_type = widened(object.schema_type);
            if let Some(words) = &mut object.enum_values {
                words.push(Value::Null);
            }
            RefOr::T(Schema::Object(object))
        }
        RefOr::T(Schema::Array(mut array)) => {
            array.schema_type = widened(array.schema_type);
            RefOr::T(Schema::Array(array))
        }
        RefOr::T(Schema::AnyOf(mut any)) => {
            any.items.push(ObjectBuilder::new().schema_type(Type::Null).into());
            RefOr::T(Schema::AnyOf(any))
        }
        other => either([other, ObjectBuilder::new().schema_type(Type::Null).into()], ""),
    }
}

/// An object with members of its own.
#[derive(Default)]
pub struct Record(ObjectBuilder);

/// Begins one.
pub fn record(about: &str) -> Record {
    Record(plain(Type::Object, about))
}

impl Record {
    /// A member that must be there.
    pub fn must(self, name: &str, shape: Shape) -> Self {
        Self(self.0.property(name, shape).required(name))
    }

    /// A field of a request that may be left out, or `null`.
    pub fn may(self, name: &str, shape: Shape) -> Self {
        Self(self.0.property(name, or_null(shape)))
    }

    /// A member of an answer that is not always there, and not `null` where it is.
    pub fn sometimes(self, name: &str, shape: Shape) -> Self {
        Self(self.0.property(name, shape))
    }

    /// Whatever else there is: what a client sent comes back with all its members.
    pub fn and_others(self) -> Self {
        Self(self.0.additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true))))
    }

    /// A request that works where the model exists.
    pub fn example(self, example: Value) -> Self {
        Self(self.0.examples([example]))
    }
}

impl From<Record> for Shape {
    fn from(record: Record) -> Self {
        record.0.into()
    }
}
