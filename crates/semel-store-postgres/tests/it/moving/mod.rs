//! Moving an embedded store here: everything is the same afterwards, whatever happened on the way, and life goes on.

mod all;
mod by_the_law;
mod differences;
mod interrupted;
mod refused;
mod source;
mod world;
