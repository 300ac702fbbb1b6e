//! Filters in requests.

use shunt_api::view::BadFilter;
use tonic::Status;

use crate::grpc::status_code::senseless;

/// Returns the filter that a request means; all if it has none.
pub(super) fn meant<M: Default, F: TryFrom<M, Error = BadFilter>>(
    filter: Option<M>,
) -> Result<F, Status> {
    let filter = filter.unwrap_or_default().try_into();
    filter.map_err(|error| senseless("filter", error))
}
