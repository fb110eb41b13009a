//! Derives of the traits of the model's `plain`: `Plain` and `Checked`. Each field is checked when the model is compiled.

use proc_macro::TokenStream;
use quote::{quote, ToTokens};
use syn::{parse_macro_input, parse_quote, Attribute, Data, DeriveInput, Type};

/// A struct is plain if all of its fields are.
#[proc_macro_derive(Plain)]
pub fn plain(input: TokenStream) -> TokenStream {
    let mut input = parse_macro_input!(input as DeriveInput);
    let Data::Struct(data) = &input.data else { panic!("only a struct is plain") };
    let types = data.fields.iter().map(|field| &field.ty);
    input.generics.type_params_mut().for_each(|param| param.bounds.push(parse_quote!(crate::plain::Plain)));
    let (name, (generics, arguments, bounds)) = (&input.ident, input.generics.split_for_impl());
    quote! {
        impl #generics crate::plain::Plain for #name #arguments #bounds {}
        const _: () = {
            #[allow(dead_code)]
            fn check #generics() #bounds { #(crate::plain::is_plain::<#types>();)* }
        };
    }
    .into()
}

/// A struct is a value if all of its fields are; an enum of `repr(u8)`, or `repr(C, u8)`, whose fields are plain, if it has
/// the number of a variant.
#[proc_macro_derive(Checked)]
pub fn checked(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let (inline, is_one, plain): (_, _, Vec<&Type>) = match &input.data {
        Data::Struct(data) => {
            // SAFETY of it: a struct whose fields have values is a value.
            let fields = data.fields.members();
            let all = quote!(true #(&& crate::plain::Checked::is_one(&raw const (*at).#fields))*);
            (quote!(inline), all, Vec::new())
        }
        Data::Enum(data) => {
            let is_byte = |attribute: &Attribute| {
                attribute.path().is_ident("repr") && attribute.to_token_stream().to_string().contains("u8")
            };
            assert!(input.attrs.iter().any(is_byte), "an enum that is checked has a repr of u8");
            assert!(
                data.variants.iter().all(|v| v.discriminant.is_none()),
                "its variants are numbered from 0"
            );
            let count = data.variants.len();
            let fields = data.variants.iter().flat_map(|variant| &variant.fields).map(|field| &field.ty);
            // SAFETY of it: it begins with the number of its variant, and every pattern of bytes is a value of the rest.
            let one = quote!(usize::from(at.cast::<u8>().read()) < #count);
            (quote!(inline(always)), one, fields.collect())
        }
        Data::Union(_) => panic!("a union has no values of its own"),
    };
    let name = &input.ident;
    quote! {
        #[allow(unsafe_code, clippy::undocumented_unsafe_blocks)]
        unsafe impl crate::plain::Checked for #name {
            #[#inline]
            unsafe fn is_one(at: *const Self) -> bool {
                unsafe { #is_one }
            }
        }
        const _: fn() = || { #(crate::plain::is_plain::<#plain>();)* };
    }
    .into()
}
