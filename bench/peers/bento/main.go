// Bento with the parts that the benchmark uses: sockets and mappings.
package main

import (
	"context"

	_ "github.com/warpstreamlabs/bento/public/components/io"
	_ "github.com/warpstreamlabs/bento/public/components/pure"
	"github.com/warpstreamlabs/bento/public/service"
)

func main() {
	service.RunCLI(context.Background())
}
